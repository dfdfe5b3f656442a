/**
 * A few rows as a slab of exactly their size. The writer's chunks are for feeds: an answer of fifty rows would take
 * eight megabytes of them.
 */
import type { Slab } from './slab.js'

export function packSlab(rows: readonly Uint8Array[]): Slab {
  const bytes = new Uint8Array(
    new SharedArrayBuffer(rows.reduce((sum, { byteLength }) => sum + byteLength, 0)),
  )
  const start = new Uint32Array(new SharedArrayBuffer(rows.length * 4))
  const length = new Uint32Array(new SharedArrayBuffer(rows.length * 4))
  let at = 0
  for (const [row, { byteLength }] of rows.entries()) {
    bytes.set(rows[row] as Uint8Array, at)
    start[row] = at
    length[row] = byteLength
    at += byteLength
  }
  const chunkOf = new Uint16Array(new SharedArrayBuffer(rows.length * 2))
  return { count: rows.length, chunks: [bytes], chunkOf, start, length }
}
