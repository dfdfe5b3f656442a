/** What snapshots hold in memory beside each other: they share what did not change. */
import type { Snapshot } from './snapshot.js'

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
export function buffersOf({ slices, ...columns }: Held): Set<ArrayBufferLike> {
  const buffers = new Set<ArrayBufferLike>()
  const visit = (value: unknown) => {
    if (ArrayBuffer.isView(value)) buffers.add(value.buffer)
    else if (Array.isArray(value)) {
      if (ArrayBuffer.isView(value[0])) for (const each of value) visit(each) // chunks, and not words
    } else if (typeof value === 'object' && value !== null && !(value instanceof Map)) {
      for (const each of Object.values(value)) visit(each)
    }
  }
  visit(columns)
  for (const { keys } of slices) buffers.add(keys.buffer)
  return buffers
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
