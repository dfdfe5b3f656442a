/**
 * A snapshot as parts for a storage, and back: after a restart the saved feed is used instead of a new merge
 * (docs/performance.md, "restart to ready"). Of its slices only enough is saved to recognise equal rows; the rows are
 * saved elsewhere (upstreams/mirror/slice-store.ts).
 */
import { bytesOf, sharedBytes } from '../upstreams/rows/slab.js'
import type { Slice, SliceMode } from '../upstreams/rows/slice.js'
import { type IndexedSlice, memoryOf, NO_MEMORY, type Snapshot } from './snapshot.js'
import { columnsOf, filled, listsOf, TABLE, valueAt } from './table.js'

/**
 * Raise this number when a column changes, or what a merge writes for the same listings and verdicts: a feed that an
 * earlier release saved is then merged again. A test fails when the saved bytes change and this number does not.
 */
export const SNAPSHOT_FORM = 8

/** Everything that is not numbers. */
type Header = Pick<Snapshot, 'id' | 'count' | 'structure' | 'pricing'> & {
  format: number
  lists: Record<string, readonly string[]>
  stamps: [domain: string, stamp: string][]
  slices: { upstream: string; agentUrl: string; scope: string; mode: SliceMode }[]
}

const LISTS = listsOf(TABLE)

/** The part in shared memory, as it is where it lies there, also in larger memory. */
const sharedPart = (part: Uint8Array) =>
  part.buffer instanceof SharedArrayBuffer ? part : new Uint8Array(sharedBytes(part))

/** The parts of the columns and of the shown rows, without the rows of the slices; `snapshotFrom` reads them. */
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

/** The snapshot as the successor of `before`: counts the memory that only one of the two holds. */
export function following(snapshot: Snapshot, before: Snapshot | undefined): Snapshot {
  return { ...snapshot, memory: memoryOf(snapshot, before) }
}

type Columns = Omit<Snapshot, 'slices'>

/** Columns and chunks of rows, in the order in which `withViews` asks for them. */
export function viewsOf(snapshot: Columns): object[] {
  return [...columnsOf(TABLE, snapshot), ...snapshot.rows.chunks]
}

/** The snapshot over the views that `view` gives for its own. */
export function withViews(snapshot: Columns, view: <View extends object>(view: View) => View): Columns {
  const columns = filled(TABLE, (path, { kind }) => {
    const value = valueAt(snapshot, path) as object
    return kind === 'list' ? value : view(value)
  }) as Pick<Snapshot, keyof typeof TABLE>
  return { ...snapshot, ...columns, rows: { ...columns.rows, chunks: snapshot.rows.chunks.map(view) } }
}
