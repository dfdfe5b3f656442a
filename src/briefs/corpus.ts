/**
 * Everything that one question may be answered from: the feed as the reader sees it, and what upstreams found besides. A hit is
 * the number of a signal in it: an entry of the feed's snapshot; numbers beyond its last entry are entries of the small snapshot
 * of what the feed lacks. Found rows that the feed has are its entries; the others are merged and authorized like the feed, with
 * what it knows of the same signals (docs/decisions.md#trust, #merging).
 */
import type { SignalRef } from '../adcp/signal.js'
import type { Judge } from '../authz/rules/verdict.js'
import { entryOfRef } from '../feed/find-signal.js'
import { createGrants } from '../feed/grants.js'
import { createPages } from '../feed/page.js'
import type { Criteria, Reader } from '../feed/query.js'
import { viewOf } from '../feed/view.js'
import { putIdentity } from '../merge/identity.js'
import { compareKeys, findKey, WORDS } from '../merge/keys.js'
import { inTurns } from '../process/portion-turns.js'
import { createMeter, type InPortions, type Meter, rowUnits } from '../process/portions.js'
import { buildingSnapshot } from '../snapshot/builder.js'
import { identityAt } from '../snapshot/slice-index.js'
import { handleAt, type Snapshot } from '../snapshot/snapshot.js'
import type { FoundRow } from '../store/records/found.js'
import {
  createRowFinder,
  createSlabWriter,
  type RowFinder,
  type Slab,
  slabRow,
} from '../upstreams/rows/slab.js'
import { type Slice, sliceListing } from '../upstreams/rows/slice.js'

const COMMA = new TextEncoder().encode(',')
const decoder = new TextDecoder()
const COPIED_BYTES_A_UNIT = 200

export type Corpus = {
  /** The feed as the reader sees it. */
  readonly feed: Snapshot
  /** What upstreams found and the feed lacks. */
  readonly extra?: Snapshot
}

/** The snapshot and entry of a hit. */
export function placeOf({ feed, extra }: Corpus, hit: number): { snapshot: Snapshot; entry: number } {
  if (hit < feed.count || !extra) return { snapshot: feed, entry: hit }
  return { snapshot: extra, entry: hit - feed.count }
}

/** Bytes of its row. */
export function sizeOf(corpus: Corpus, hit: number): number {
  const { snapshot, entry } = placeOf(corpus, hit)
  return snapshot.rows.length[entry] as number
}

/** The handle of the signal. */
export function handleOf(corpus: Corpus, hit: number): string {
  const { snapshot, entry } = placeOf(corpus, hit)
  return handleAt(snapshot, entry)
}

/** The key of the signal, the same in every snapshot. */
export function keyOf(corpus: Corpus, hit: number): Uint32Array {
  const { snapshot, entry } = placeOf(corpus, hit)
  return snapshot.keys.subarray(entry * WORDS, (entry + 1) * WORDS)
}

function shownEntry(snapshot: Snapshot, key: Uint32Array): number {
  const entry = findKey(snapshot.keys, snapshot.count, key)
  return entry >= 0 && snapshot.rows.length[entry] !== 0 ? entry : -1
}

/**
 * The hit with a key; -1 when its row is not shown. The snapshot of findings is asked first, because it holds all
 * offers of its signals.
 */
export function hitOf({ feed, extra }: Corpus, key: Uint32Array): number {
  const found = extra ? shownEntry(extra, key) : -1
  return found >= 0 ? feed.count + found : shownEntry(feed, key)
}

/** The hits that references name, each once, in their order. */
export function anchorsOf({ feed, extra }: Corpus, refs: readonly SignalRef[]): number[] {
  const named = refs.map((ref) => {
    const found = extra ? entryOfRef(extra, ref) : -1
    return found >= 0 ? feed.count + found : entryOfRef(feed, ref)
  })
  return [...new Set(named.filter((hit) => hit >= 0))]
}

/** For each entry of one snapshot, the entry of the same signal in the other; -1 when that one does not show it. */
export function createTranslations() {
  const known = new WeakMap<Snapshot, WeakMap<Snapshot, Promise<Int32Array>>>()

  /** Both are in key order, so one walk joins them. */
  function* translated(from: Snapshot, to: Snapshot): InPortions<Int32Array> {
    const meter = createMeter()
    const entries = new Int32Array(from.count).fill(-1)
    let other = 0
    for (let entry = 0; entry < from.count; entry += 1) {
      while (other < to.count && compareKeys(to.keys, other, from.keys, entry) < 0) other += 1
      const isThere = other < to.count && compareKeys(to.keys, other, from.keys, entry) === 0
      if (isThere && to.rows.length[other] !== 0) entries[entry] = other
      meter.did(1)
      if (meter.isDue()) yield
    }
    return entries
  }

  return async (from: Snapshot, to: Snapshot): Promise<Int32Array | undefined> => {
    if (from === to || from.id === to.id) return undefined // equal content, equal entries
    const targets = known.get(from) ?? new WeakMap<Snapshot, Promise<Int32Array>>()
    known.set(from, targets)
    const entries = targets.get(to) ?? inTurns(translated(from, to))
    targets.set(to, entries)
    return await entries
  }
}

type RowSelection = { criteria: Criteria; reader: Reader; fields?: readonly string[] }

/** One byte for each entry of the snapshot: 1 for those given. */
export function flagsOf(snapshot: Snapshot, entries: Uint32Array): Uint8Array {
  const flags = new Uint8Array(snapshot.count)
  for (const entry of entries) flags[entry] = 1
  return flags
}

/** Whether a hit passes the criteria. `entries`: the feed's entries that do, from `feed.see`. */
export async function createGate(corpus: Corpus, entries: Uint32Array, { criteria, reader }: RowSelection) {
  const { feed, extra } = corpus
  const inFeed = flagsOf(feed, entries)
  const inExtra = extra && flagsOf(extra, (await inTurns(viewOf(extra, criteria, reader))).entries)
  return (hit: number): boolean => (hit < feed.count ? inFeed[hit] : inExtra?.[hit - feed.count]) === 1
}

/** The rows of some hits, as pieces to be written in order, commas included. */
export function createRowPieces(corpus: Corpus, { criteria, reader, fields }: RowSelection) {
  const pagesOf = (snapshot: Snapshot) =>
    createPages(snapshot, {
      criteria,
      seesPrices: reader.visibility === 'full',
      grants: createGrants(snapshot, reader, criteria),
      ...(fields && { fields }),
    })
  const feedPages = pagesOf(corpus.feed)
  const extraPages = corpus.extra && pagesOf(corpus.extra)

  function rowPieces(hit: number): Uint8Array[] {
    const { snapshot, entry } = placeOf(corpus, hit)
    const pages = snapshot === corpus.feed ? feedPages : (extraPages ?? feedPages)
    return pages.rows(Uint32Array.of(entry))
  }

  return {
    rows: (hits: readonly number[]) =>
      hits.flatMap((hit, at) => (at === 0 ? rowPieces(hit) : [COMMA, ...rowPieces(hit)])),
    row: (hit: number) => JSON.parse(Buffer.concat(rowPieces(hit)).toString()) as Record<string, unknown>,
    warnings: (hits: readonly number[]) =>
      feedPages.partialCoverage(Uint32Array.from(hits.filter((hit) => hit < corpus.feed.count))),
  }
}

/** A row of an answer, with the key of its signal. */
type FoundPlace = { slice: Slice; row: number; key: Uint32Array }

type Findings = {
  corpus: Corpus
  /** One list per slice, in the order of the slices: hits in the upstream's own order. */
  lists: readonly (readonly number[])[]
  /** The rows that the feed lacks. */
  found: readonly FoundPlace[]
}

/** What one agent's rows outside the feed are cut from. */
type Part = { slice: Slice; rows: { from: Slice; row: number }[] }

type RowKeys = readonly (Uint32Array | undefined)[]

/** Answers are shared between questions and ranked twice, so the keys of their rows are computed once. */
const keysOfRows = new WeakMap<Slab, RowKeys>()

function rowKey(slice: Slice, row: number, finder: RowFinder): Uint32Array | undefined {
  const identity = identityAt(slice, row, finder)
  if (!identity) return undefined
  const key = new Uint32Array(WORDS)
  putIdentity(key, 0, identity)
  return key
}

/** The key of each row of an answer. */
function* rowKeys(slice: Slice, meter: Meter): InPortions<RowKeys> {
  const known = keysOfRows.get(slice.rows)
  if (known) return known
  const keys: (Uint32Array | undefined)[] = []
  const finder = createRowFinder(slice.rows)
  for (const bytes of slice.rows.length) {
    keys.push(rowKey(slice, keys.length, finder))
    meter.did(rowUnits(bytes))
    if (meter.isDue()) yield
  }
  keysOfRows.set(slice.rows, keys)
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

/** Withheld rows are not stored. */
function* remembered({ corpus, found }: Findings): InPortions<FoundRow[]> {
  const meter = createMeter()
  const { extra, feed } = corpus
  const kept: FoundRow[] = []
  if (!extra) return kept
  for (const { slice, row, key } of found) {
    const hit = hitOf(corpus, key)
    if (hit < feed.count) continue
    const { agentUrl, scope, rows, pricedFor } = slice
    const bytes = slabRow(rows, row)
    kept.push({
      ...{ handle: handleAt(extra, hit - feed.count), agentUrl, scope },
      segment: sliceListing(slice, row).signal_agent_segment_id,
      listing: decoder.decode(bytes),
      ...(pricedFor !== undefined && { pricedFor }),
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
  const lists: number[][] = []
  for (const list of keys) {
    lists.push([...new Set(list.map((key) => (key ? hitOf(corpus, key) : -1)).filter((hit) => hit >= 0))])
    meter.did(list.length)
    if (meter.isDue()) yield
  }
  return { corpus, lists, found }
}

/**
 * The findings of these slices, made in portions; the order in which they arrived does not matter. `previous`: the
 * `extra` snapshot of when fewer of them had arrived, so that only what is new is merged.
 */
export async function gatherFindings(...given: Parameters<typeof gathered>): Promise<Findings> {
  const [feed, slices] = given
  return slices.length === 0 ? { corpus: { feed }, lists: [], found: [] } : await inTurns(gathered(...given))
}

/** Rows that are shown and that the feed lacks, to be remembered for further pages, activation and lookup. */
export const foundRows = (findings: Findings): Promise<FoundRow[]> => inTurns(remembered(findings))
