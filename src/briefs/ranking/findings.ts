/**
 * Connects what upstreams found with the feed: rows that the feed has are its entries; the others are merged and
 * authorized like the feed (docs/decisions.md#trust, #merging), together with what the feed knows of the same signals.
 */

import { handleKey, identityKey, identityOf, signalHandle } from '../../merge/identity.js'
import type { Judge } from '../../merge/judge.js'
import { buildSnapshot } from '../../snapshot/builder.js'
import { findKey, putKey, WORDS } from '../../snapshot/keys.js'
import { handleAt, type Snapshot } from '../../snapshot/snapshot.js'
import type { FoundRow } from '../../store/records/found.js'
import { packSlab, slabRow } from '../../upstreams/rows/slab.js'
import { type Slice, sliceListing } from '../../upstreams/rows/slice.js'
import { type Corpus, hitOf } from './hits.js'

type Findings = {
  corpus: Corpus
  /** One list per slice, in the order of the slices: hits in the upstream's own order. */
  lists: readonly (readonly number[])[]
  /** Rows that are shown and that no slice has, to be remembered for activation and lookup. */
  rows: readonly FoundRow[]
}

const decoder = new TextDecoder()

type FoundPlace = { slice: Slice; row: number; key: Uint32Array }
type Part = { slice: Slice; rows: { from: Slice; row: number }[] }

/** Answers are shared between questions, and ranked again for each page: their keys are computed once. */
const keysOfSlice = new WeakMap<Slice, readonly (Uint32Array | undefined)[]>()

function rowKey(slice: Slice, row: number): Uint32Array | undefined {
  const identity = identityOf(sliceListing(slice, row), slice.agentUrl)
  const bytes = identity && handleKey(signalHandle(identityKey(identity)))
  if (!bytes) return undefined
  const key = new Uint32Array(WORDS)
  putKey(key, 0, bytes)
  return key
}

/** The key of each row of an answer. */
export function rowKeys(slice: Slice): readonly (Uint32Array | undefined)[] {
  const known = keysOfSlice.get(slice)
  if (known) return known
  const keys = Array.from({ length: slice.rows.count }, (_, row) => rowKey(slice, row))
  keysOfSlice.set(slice, keys)
  return keys
}

/** The mirrored listings of a feed entry, withheld ones included: an unauthorized offer must stay unauthorized. */
function mirrored({ offers, slices }: Snapshot, entry: number): { slice: Slice; row: number }[] {
  const found: { slice: Slice; row: number }[] = []
  for (let at = offers.at[entry] as number; at < (offers.at[entry + 1] as number); at += 1) {
    const slice = slices[offers.slice[at] as number]?.slice
    if (slice) found.push({ slice, row: offers.row[at] as number })
  }
  return found
}

function cutOut({ slice, rows }: Part): Slice {
  const digests = new BigUint64Array(new SharedArrayBuffer(rows.length * 8))
  rows.forEach(({ from, row }, at) => {
    digests[at] = from.digests[row] as bigint
  })
  return { ...slice, rows: packSlab(rows.map(({ from, row }) => slabRow(from.rows, row))), digests }
}

/** The found rows to remember; withheld rows are not stored. */
function remembered(corpus: Corpus, found: readonly FoundPlace[]): FoundRow[] {
  const { extra, feed } = corpus
  if (!extra) return []
  return found.flatMap(({ slice, row, key }): FoundRow[] => {
    const hit = hitOf(corpus, key)
    if (hit < feed.count) return []
    const { upstream, agentUrl, scope, rows } = slice
    return [
      {
        ...{ handle: handleAt(extra, hit - feed.count), upstream, agentUrl, scope },
        segment: sliceListing(slice, row).signal_agent_segment_id,
        listing: decoder.decode(slabRow(rows, row)),
      },
    ]
  })
}

/**
 * The same result for the same slices, in whatever order they arrived. `previous`: what was found besides the feed when
 * fewer of them had arrived; only what is new is merged then.
 */
export function gatherFindings(
  feed: Snapshot,
  slices: readonly Slice[],
  judge: Judge,
  previous?: Snapshot,
): Findings {
  const parts = new Map<string, Part>() // agent url -> what is merged besides the feed
  const carried = new Set<string>()
  const found: FoundPlace[] = []
  const put = (slice: Slice, from: Slice, row: number) => {
    const part = parts.get(slice.agentUrl) ?? { slice, rows: [] }
    part.rows.push({ from, row })
    parts.set(slice.agentUrl, part)
  }
  const keys = slices.map(rowKeys)
  for (const [at, slice] of slices.entries()) {
    for (const [row, key] of (keys[at] ?? []).entries()) {
      if (!key) continue
      const entry = findKey(feed.keys, feed.count, key)
      const held = entry < 0 ? [] : mirrored(feed, entry)
      // The mirror has the upstream's whole row; an answer may hold only a part of it.
      if (held.some((offer) => offer.slice.agentUrl === slice.agentUrl)) continue
      put(slice, slice, row)
      found.push({ slice, row, key })
      if (carried.has(key.join())) continue
      carried.add(key.join())
      for (const offer of held) put(offer.slice, offer.slice, offer.row)
    }
  }
  const own = [...parts.values()].map(cutOut)
  const extra =
    own.length > 0 ? buildSnapshot({ slices: own, judge, ...(previous && { previous }) }) : undefined
  const corpus: Corpus = extra ? { feed, extra } : { feed }
  const lists = keys.map((list) => [
    ...new Set(list.map((key) => (key ? hitOf(corpus, key) : -1)).filter((hit) => hit >= 0)),
  ])
  return { corpus, lists, rows: remembered(corpus, found) }
}
