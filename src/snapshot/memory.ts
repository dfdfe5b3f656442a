/** What snapshots hold in memory beside each other: they share what did not change. */
import type { Snapshot } from './snapshot.js'
import { columnsOf, TABLE } from './table.js'

/** Bytes, the rows of slices apart. */
export type Memory = {
  /** That only this snapshot holds, and not the one that it was built on. */
  readonly added: number
  /** That only the one that it was built on holds. */
  readonly released: number
}

export const NO_MEMORY: Memory = { added: 0, released: 0 }

type Held = Omit<Snapshot, 'memory'>

/** Every piece of memory that a snapshot keeps alive, the rows of its slices apart. */
export function buffersOf(held: Held): Set<ArrayBufferLike> {
  const views = [...columnsOf(TABLE, held), ...held.rows.chunks, ...held.slices.map(({ keys }) => keys)]
  return new Set(views.map(({ buffer }) => buffer))
}

function bytesBeyond(buffers: ReadonlySet<ArrayBufferLike>, others: ReadonlySet<ArrayBufferLike>): number {
  let bytes = 0
  for (const buffer of buffers) if (!others.has(buffer)) bytes += buffer.byteLength
  return bytes
}

export function memoryOf(snapshot: Held, previous: Held | undefined): Memory {
  const own = buffersOf(snapshot)
  const before = previous ? buffersOf(previous) : new Set<ArrayBufferLike>()
  return { added: bytesBeyond(own, before), released: bytesBeyond(before, own) }
}
