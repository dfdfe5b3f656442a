/**
 * One immutable state of the whole merged feed (docs/decisions.md#snapshots-and-versions): rows as bytes in shared
 * chunks, columns for filters, and for each signal the listings it came from. Plain data, so that a worker can make it
 * and post it. Entry `i` of every column describes the same signal; entries are in key order. A withheld signal is an
 * entry without a row: its offers are known, but the feed does not show it. A storage keeps a snapshot as parts: after a
 * restart the saved feed is used instead of a new merge (docs/decisions.md#a-restart-serves-what-was-served).
 */
import { bufferOf, endOfString } from '../adcp/json.js'
import { HANDLE_LENGTH, handleKey } from '../merge/identity.js'
import { findKey } from '../merge/keys.js'
import { byUpstream } from '../merge/offer.js'
import type { Piece, RowBytes } from '../merge/row-writer.js'
import { bytesOf, sharedBytes, slabRow } from '../upstreams/rows/slab.js'
import { type Listing, type Slice, type SliceMode, sliceListing } from '../upstreams/rows/slice.js'
import { columnsOf, type Filled, filled, listsOf, type Rows, specsOf, TABLE, valueAt } from './columns.js'

export type IndexedSlice = {
  readonly slice: Slice
  /** The key of each row's identity (merge/keys.ts). */
  readonly keys: Uint32Array
}

export type Snapshot = Omit<Filled<typeof TABLE>, 'rows'> & {
  /** Content-addressed: equal feeds have equal ids in every process. */
  readonly id: string
  /** The number of entries, withheld ones included. */
  readonly count: number
  readonly rows: Rows
  /** Digests of the whole feed. */
  readonly structure: string
  readonly pricing: string
  readonly slices: readonly IndexedSlice[]
  /** The stamp of each provider when this was built. */
  readonly stamps: ReadonlyMap<string, string>
  readonly memory: Memory
}

const decoder = new TextDecoder()
const HANDLE_AT = '{"signal_agent_segment_id":"'.length

function piece(snapshot: Snapshot, entry: number, from: number, to: number): Uint8Array {
  const { chunks, chunkOf, start } = snapshot.rows
  const at = start[entry] as number
  return (chunks[chunkOf[entry] as number] as Uint8Array).subarray(at + from, at + to)
}

/** A row's bytes, prices included: a view, not a copy. */
export function rowBytes(snapshot: Snapshot, entry: number): Uint8Array {
  return piece(snapshot, entry, 0, snapshot.rows.length[entry] as number)
}

/** Where the row's members stand, up to its prices for a reader who sees none. */
export function rowMembers({ rows }: Snapshot, entry: number, seesPrices: boolean): RowBytes {
  const { chunks, chunkOf, start, length, head, fields, deployments } = rows
  const at = start[entry] as number
  return {
    from: chunks[chunkOf[entry] as number] as Uint8Array,
    start: at,
    end: at + (seesPrices ? (length[entry] as number) - 1 : (head[entry] as number)),
    places: { fields: fields[entry] as number, deployments: deployments[entry] as number },
  }
}

/** A row's bytes up to its prices, without the closing brace. */
export function headBytes(snapshot: Snapshot, entry: number): Uint8Array {
  return piece(snapshot, entry, 0, snapshot.rows.head[entry] as number)
}

/** `signal_agent_segment_id`, the first member of every row. */
export function handleAt(snapshot: Snapshot, entry: number): string {
  return decoder.decode(piece(snapshot, entry, HANDLE_AT, HANDLE_AT + HANDLE_LENGTH))
}

/** The entry of a signal's handle; -1 when the snapshot does not show the signal. */
export function entryOf(snapshot: Snapshot, handle: string): number {
  const key = handleKey(handle)
  const entry = key ? findKey(snapshot.keys, snapshot.count, key) : -1
  return entry >= 0 && snapshot.rows.length[entry] !== 0 && handleAt(snapshot, entry) === handle ? entry : -1
}

const NAME = Buffer.from('"name":"') // the first member of that name is the signal's: what stands before it has none

/** The name of a signal, without reading the rest of its row, which may be long. */
export function signalNameAt(snapshot: Snapshot, entry: number): string {
  const head = bufferOf(headBytes(snapshot, entry))
  const from = head.indexOf(NAME) + NAME.length - 1
  return JSON.parse(head.toString('utf8', from, endOfString(head, from))) as string
}

/** The row as an object. */
export function rowAt(snapshot: Snapshot, entry: number): Record<string, unknown> {
  return JSON.parse(decoder.decode(rowBytes(snapshot, entry))) as Record<string, unknown>
}

/** Where an offer's listing is: the index of its slice among the snapshot's, and the row in it. */
export type OfferPlace = { slice: number; row: number }

/** A listing as it is kept. */
export function keptListing(slices: readonly IndexedSlice[], { slice, row }: OfferPlace): Uint8Array {
  return slabRow((slices[slice] as IndexedSlice).slice.rows, row)
}

/** The activation key of a deployment of an entry, in its listing; undefined when a listing has to be parsed for it. */
export function keyPiece(
  { deployments, offers, slices }: Snapshot,
  entry: number,
  one: number,
): Piece | undefined {
  const bytes = deployments.keyBytes[one] as number
  if (bytes === 0) return undefined
  const offer = (offers.at[entry] as number) + (deployments.keyOffer[one] as number)
  const { rows } = (slices[offers.slice[offer] as number] as IndexedSlice).slice
  const row = offers.row[offer] as number
  const start = (rows.start[row] as number) + (deployments.keyStart[one] as number)
  return { from: rows.chunks[rows.chunkOf[row] as number] as Uint8Array, start, end: start + bytes }
}

/** A listing that is part of a signal's row, with its slice. */
type StandingListing = { agentUrl: string; slice: Slice; listing: Listing }

/** In merge order (merge/offer.ts): of two equal deployments the first gives the key. */
export function standingListings(snapshot: Snapshot, entry: number): StandingListing[] {
  const { at, slice, row, stands } = snapshot.offers
  const found: StandingListing[] = []
  for (let offer = at[entry] as number; offer < (at[entry + 1] as number); offer += 1) {
    const from = snapshot.slices[slice[offer] as number]?.slice
    if (!stands[offer] || !from) continue
    found.push({ agentUrl: from.agentUrl, slice: from, listing: sliceListing(from, row[offer] as number) })
  }
  return found.length < 2 ? found : found.sort(byUpstream)
}

/**
 * The memory of a snapshot compared with the one it was built on, in bytes; the rows of slices are counted elsewhere.
 */
type Memory = {
  /** Bytes that only this snapshot holds. */
  readonly added: number
  /** Bytes that only the previous snapshot holds. */
  readonly released: number
}

export const NO_MEMORY: Memory = { added: 0, released: 0 }

type Held = Omit<Snapshot, 'memory'>

/** Every buffer that a snapshot keeps alive, except the rows of its slices. */
function buffersOf(held: Held): Set<ArrayBufferLike> {
  const views = [...columnsOf(TABLE, held), ...held.rows.chunks, ...held.slices.map(({ keys }) => keys)]
  return new Set(views.map(({ buffer }) => buffer))
}

function bytesBeyond(buffers: ReadonlySet<ArrayBufferLike>, others: ReadonlySet<ArrayBufferLike>): number {
  let bytes = 0
  for (const buffer of buffers) if (!others.has(buffer)) bytes += buffer.byteLength
  return bytes
}

/** `previous`: the snapshot that it was built on. */
export function memoryOf(snapshot: Held, previous: Held | undefined): Memory {
  const own = buffersOf(snapshot)
  const before = previous ? buffersOf(previous) : new Set<ArrayBufferLike>()
  return { added: bytesBeyond(own, before), released: bytesBeyond(before, own) }
}

/**
 * Raise this number when a column changes, or what a merge writes for the same listings and verdicts: a feed that an
 * earlier release saved is then merged again. A test fails when the saved bytes change and this number does not.
 */
export const SNAPSHOT_FORM = 12

/** Everything that is not numbers. */
type Header = Pick<Snapshot, 'id' | 'count' | 'structure' | 'pricing'> & {
  format: number
  lists: Record<string, readonly string[]>
  stamps: [domain: string, stamp: string][]
  slices: { upstream: string; agentUrl: string; scope: string; mode: SliceMode }[]
}

const LISTS = listsOf(TABLE)
const COLUMNS = specsOf(TABLE).length - LISTS.length

/** The part in shared memory, as it is where it lies there, also in larger memory. */
const sharedPart = (part: Uint8Array) =>
  part.buffer instanceof SharedArrayBuffer ? part : new Uint8Array(sharedBytes(part))

/**
 * The parts of the columns and of the shown rows; `snapshotFrom` reads them. Of the slices only enough is saved to recognise
 * equal rows: their rows are saved elsewhere.
 */
export function snapshotParts(snapshot: Snapshot): Uint8Array[] {
  const { id, count, structure, pricing, rows, slices, stamps } = snapshot
  const header: Header = {
    ...{ format: SNAPSHOT_FORM, id, count, structure, pricing },
    lists: Object.fromEntries(LISTS.map(([path]) => [path, valueAt(snapshot, path) as readonly string[]])),
    stamps: [...stamps],
    slices: slices.map(({ slice: { upstream, agentUrl, scope, mode } }) => {
      return { upstream, agentUrl, scope, mode }
    }),
  }
  const ofSlices = slices.flatMap(({ slice, keys }) => [slice.digests, keys])
  const columns = [...columnsOf(TABLE, snapshot), ...ofSlices].map(bytesOf)
  return [Buffer.from(JSON.stringify(header)), ...columns, ...rows.chunks]
}

/** A slice that knows which rows it had, but not their content. */
function remembered(
  about: Header['slices'][number],
  digests: BigUint64Array,
  keys: Uint32Array,
): IndexedSlice {
  const none = { chunks: [], chunkOf: new Uint16Array(), start: new Uint32Array(), length: new Uint32Array() }
  return {
    slice: { ...about, rows: { count: digests.length, ...none }, digests, dropped: {}, walkedAt: 0 },
    keys,
  }
}

/** How many parts stand between the first, which says so, and those of the rows. */
export function columnParts(head: Uint8Array): number {
  const { slices = [] } = JSON.parse(Buffer.from(head).toString()) as Partial<Header>
  return COLUMNS + 2 * slices.length
}

/** The snapshot on which to build the next one; undefined when the parts have another format, or are missing. */
export function snapshotFrom([head, ...parts]: readonly Uint8Array[]): Snapshot | undefined {
  if (!head) return undefined
  const header = JSON.parse(Buffer.from(head).toString()) as Header
  if (header.format !== SNAPSHOT_FORM) return undefined
  let at = 0
  const next = () => sharedBytes(parts[at++] ?? new Uint8Array())
  // Members are read in the order in which they are written.
  const columns = filled(TABLE, (path, spec) => {
    return spec.kind === 'list' ? header.lists[path] : spec.make.over(next())
  }) as Pick<Snapshot, keyof typeof TABLE>
  const slices = header.slices.map((slice) =>
    remembered(slice, new BigUint64Array(next()), new Uint32Array(next())),
  )
  const chunks = parts.slice(at).map(sharedPart)
  const { id, count, structure, pricing } = header
  return {
    ...{ ...columns, id, count, structure, pricing, slices },
    rows: { ...columns.rows, chunks },
    stamps: new Map(header.stamps),
    memory: NO_MEMORY,
  }
}

/** A slice without its numbers and bytes. */
type About = Omit<Slice, 'rows' | 'digests'>

type SliceHeader = { slices: (About & { chunks: number })[] }

/**
 * The same with the rows of its slices: a process that loads it can serve it without reading any upstream. What two
 * snapshots share becomes equal parts, which a storage that names bytes by content keeps once.
 */
export function wholeParts(snapshot: Snapshot): Uint8Array[] {
  const header: SliceHeader = {
    slices: snapshot.slices.map(({ slice: { rows, digests: _, ...about } }) => ({
      ...about,
      chunks: rows.chunks.length,
    })),
  }
  const rows = snapshot.slices.flatMap(({ slice: { rows } }) => [
    ...[rows.chunkOf, rows.start, rows.length].map(bytesOf),
    ...rows.chunks,
  ])
  return [Buffer.from(JSON.stringify(header)), ...rows, ...snapshotParts(snapshot)]
}

/** Undefined when the parts are another release's, or missing. */
export function wholeSnapshot([head, ...parts]: readonly Uint8Array[]): Snapshot | undefined {
  if (!head) return undefined
  const { slices: abouts } = JSON.parse(Buffer.from(head).toString()) as SliceHeader
  let at = 0
  const nextPart = () => parts[at++] ?? new Uint8Array()
  const next = () => sharedBytes(nextPart())
  const rows = abouts.map(({ chunks }): Slice['rows'] => {
    const [chunkOf, start, length] = [
      new Uint16Array(next()),
      new Uint32Array(next()),
      new Uint32Array(next()),
    ] as const
    const bytes = Array.from({ length: chunks }, () => sharedPart(nextPart()))
    return { count: length.length, chunks: bytes, chunkOf, start, length }
  })
  const snapshot = snapshotFrom(parts.slice(at))
  if (!snapshot) return undefined
  const slices = snapshot.slices.map(({ slice: { digests }, keys }, index) => {
    const { chunks: _, ...about } = abouts[index] as SliceHeader['slices'][number]
    return { slice: { ...about, rows: rows[index] as Slice['rows'], digests }, keys }
  })
  return { ...snapshot, slices }
}

type WithoutSlices = Omit<Snapshot, 'slices'>

/** Columns and chunks of rows, in the order in which `withViews` asks for them. */
export function viewsOf(snapshot: WithoutSlices): object[] {
  return [...columnsOf(TABLE, snapshot), ...snapshot.rows.chunks]
}

/** The snapshot over the views that `view` gives for its own. */
export function withViews(
  snapshot: WithoutSlices,
  view: <View extends object>(view: View) => View,
): WithoutSlices {
  const columns = filled(TABLE, (path, { kind }) => {
    const value = valueAt(snapshot, path) as object
    return kind === 'list' ? value : view(value)
  }) as Pick<Snapshot, keyof typeof TABLE>
  return { ...snapshot, ...columns, rows: { ...columns.rows, chunks: snapshot.rows.chunks.map(view) } }
}
