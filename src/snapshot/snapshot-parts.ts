/**
 * A snapshot as parts for a storage, and back: after a restart the feed is not merged again but taken up
 * (docs/performance.md, "restart to ready"). Of its slices only what tells whether rows are the same is kept; the
 * rows themselves have a storage of their own (upstreams/mirror/slice-store.ts).
 */
import { bytesOf, sharedBytes } from '../upstreams/rows/slab.js'
import type { SliceMode } from '../upstreams/rows/slice.js'
import { type IndexedSlice, NO_MEMORY, type Snapshot } from './snapshot.js'
import { columnsOf, filled, listsOf, TABLE, valueAt } from './table.js'

/**
 * Raised by whoever changes a column, or what a merge writes for the same listings and verdicts: a feed that an earlier
 * release saved is then merged anew. A test fails when the saved bytes change and this number does not.
 */
const FORMAT = 5

/** What is not numbers. */
type Header = Pick<Snapshot, 'id' | 'count' | 'structure' | 'pricing'> & {
  format: number
  lists: Record<string, readonly string[]>
  stamps: [domain: string, stamp: string][]
  slices: { upstream: string; agentUrl: string; scope: string; mode: SliceMode }[]
}

const LISTS = listsOf(TABLE)

export function snapshotParts(snapshot: Snapshot): Uint8Array[] {
  const { id, count, structure, pricing, rows, slices, stamps } = snapshot
  const header: Header = {
    ...{ format: FORMAT, id, count, structure, pricing },
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

/** A slice that knows which rows it had, not what stood in them. */
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

/** The snapshot to build the next one on; undefined when the parts are of another format, or none. */
export function snapshotFrom([head, ...parts]: readonly Uint8Array[]): Snapshot | undefined {
  if (!head) return undefined
  const header = JSON.parse(Buffer.from(head).toString()) as Header
  if (header.format !== FORMAT) return undefined
  let at = 0
  const next = () => sharedBytes(parts[at++] ?? new Uint8Array())
  // Members are read in the order in which they were written.
  const columns = filled(TABLE, (path, spec) => {
    return spec.kind === 'list' ? header.lists[path] : spec.make.over(next())
  }) as Pick<Snapshot, keyof typeof TABLE>
  const slices = header.slices.map((slice) =>
    remembered(slice, new BigUint64Array(next()), new Uint32Array(next())),
  )
  const chunks = parts.slice(at).map((part) => new Uint8Array(sharedBytes(part)))
  const { id, count, structure, pricing } = header
  return {
    ...{ ...columns, id, count, structure, pricing, slices },
    rows: { ...columns.rows, chunks },
    stamps: new Map(header.stamps),
    memory: NO_MEMORY,
  }
}
