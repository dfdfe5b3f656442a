/**
 * Connects what upstreams found with the feed: rows that the feed has are its entries; the others are merged and
 * authorized like the feed (docs/decisions.md#trust, #merging), together with what the feed knows of the same signals.
 */

import type { Judge } from '../../merge/judge.js'
import { buildingSnapshot } from '../../snapshot/builder.js'
import { findKey, putIdentity, WORDS } from '../../snapshot/keys.js'
import { identityAt } from '../../snapshot/slice-index.js'
import { handleAt, type Snapshot } from '../../snapshot/snapshot.js'
import type { FoundRow } from '../../store/records/found.js'
import { createMeter, type InPortions, inTurns, type Meter, rowUnits } from '../../threads/portions.js'
import { createSlabWriter, slabRow } from '../../upstreams/rows/slab.js'
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
const COPIED_BYTES_A_UNIT = 200

type FoundPlace = { slice: Slice; row: number; key: Uint32Array }
type Part = { slice: Slice; rows: { from: Slice; row: number }[] }

type RowKeys = readonly (Uint32Array | undefined)[]

/** Answers are shared between questions and ranked twice, so their keys are computed once. */
const keysOfSlice = new WeakMap<Slice, RowKeys>()

function rowKey(slice: Slice, row: number): Uint32Array | undefined {
  const identity = identityAt(slice, row)
  if (!identity) return undefined
  const key = new Uint32Array(WORDS)
  putIdentity(key, 0, identity)
  return key
}

/** The key of each row of an answer. */
function* rowKeys(slice: Slice, meter: Meter): InPortions<RowKeys> {
  const known = keysOfSlice.get(slice)
  if (known) return known
  const keys: (Uint32Array | undefined)[] = []
  for (const bytes of slice.rows.length) {
    keys.push(rowKey(slice, keys.length))
    meter.did(rowUnits(bytes))
    if (meter.isDue()) yield
  }
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

/** Copies rows: kept answers hold them for minutes, and views would keep whole answers and replaced feeds in memory. */
function* cutOut({ slice, rows }: Part, meter: Meter): InPortions<Slice> {
  const digests = new BigUint64Array(new SharedArrayBuffer(rows.length * 8))
  const writer = createSlabWriter()
  for (const [at, { from, row }] of rows.entries()) {
    const bytes = slabRow(from.rows, row)
    digests[at] = from.digests[row] as bigint
    writer.append(bytes)
    meter.did(bytes.byteLength / COPIED_BYTES_A_UNIT)
    if (meter.isDue()) yield
  }
  return { ...slice, rows: writer.finish(), digests }
}

/** The found rows to remember; withheld rows are not stored. */
function* remembered(corpus: Corpus, found: readonly FoundPlace[], meter: Meter): InPortions<FoundRow[]> {
  const { extra, feed } = corpus
  const kept: FoundRow[] = []
  if (!extra) return kept
  for (const { slice, row, key } of found) {
    const hit = hitOf(corpus, key)
    if (hit < feed.count) continue
    const { upstream, agentUrl, scope, rows } = slice
    const bytes = slabRow(rows, row)
    kept.push({
      ...{ handle: handleAt(extra, hit - feed.count), upstream, agentUrl, scope },
      segment: sliceListing(slice, row).signal_agent_segment_id,
      listing: decoder.decode(bytes),
    })
    meter.did(rowUnits(bytes.byteLength))
    if (meter.isDue()) yield
  }
  return kept
}

function* gathered(
  feed: Snapshot,
  slices: readonly Slice[],
  judge: Judge,
  previous?: Snapshot,
): InPortions<Findings> {
  const meter = createMeter()
  const parts = new Map<string, Part>() // agent url -> its rows that are merged outside the feed
  const carried = new Set<string>()
  const found: FoundPlace[] = []
  const put = (slice: Slice, from: Slice, row: number) => {
    const part = parts.get(slice.agentUrl) ?? { slice, rows: [] }
    part.rows.push({ from, row })
    parts.set(slice.agentUrl, part)
  }
  const keys: RowKeys[] = []
  for (const slice of slices) keys.push(yield* rowKeys(slice, meter))
  for (const [at, slice] of slices.entries()) {
    for (const [row, key] of (keys[at] ?? []).entries()) {
      if (!key) continue
      meter.did(rowUnits(0))
      if (meter.isDue()) yield
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
  const own: Slice[] = []
  for (const part of parts.values()) own.push(yield* cutOut(part, meter))
  const order = { slices: own, judge, ...(previous && { previous }) }
  const corpus: Corpus = own.length > 0 ? { feed, extra: yield* buildingSnapshot(order) } : { feed }
  const lists = keys.map((list) => [
    ...new Set(list.map((key) => (key ? hitOf(corpus, key) : -1)).filter((hit) => hit >= 0)),
  ])
  return { corpus, lists, rows: yield* remembered(corpus, found, meter) }
}

/**
 * The findings of these slices, made in portions; the order in which they arrived does not matter. `previous`: the
 * `extra` snapshot of when fewer of them had arrived, so that only what is new is merged.
 */
export async function gatherFindings(...given: Parameters<typeof gathered>): Promise<Findings> {
  const [feed, slices] = given
  return slices.length === 0 ? { corpus: { feed }, lists: [], rows: [] } : await inTurns(gathered(...given))
}
