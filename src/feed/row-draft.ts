/**
 * The rows of a snapshot being written. A row that did not change stays where it lies, in a chunk that both snapshots
 * share; chunks that hold mostly dead rows are left and their live rows written anew.
 */
import { createSlabWriter } from '../upstreams/slab.js'
import { createColumn, u16, u32 } from './columns.js'
import { digestWords } from './digest.js'
import type { Rows, Snapshot } from './snapshot.js'

const LIVE_SHARE = 0.75
/** Small builds leave small chunks: beyond this many, the small ones are written anew together. */
const MOST_SMALL_CHUNKS = 32
const SMALL_CHUNK = 1024 * 1024
const NEW = 0xffff // "in a chunk of this build", until those are numbered
const BRACE = 0x7d
const COMMA = 0x2c

/** Chunks that rows must leave. */
function wornChunks(rows: Rows): boolean[] {
  const live = new Float64Array(rows.chunks.length)
  rows.length.forEach((length, entry) => {
    const chunk = rows.chunkOf[entry] as number
    if (length > 0) live[chunk] = (live[chunk] as number) + length + 1
  })
  const many = rows.chunks.filter(({ byteLength }) => byteLength < SMALL_CHUNK).length > MOST_SMALL_CHUNKS
  return rows.chunks.map(
    ({ byteLength }, at) =>
      (live[at] as number) < byteLength * LIVE_SHARE || (many && byteLength < SMALL_CHUNK),
  )
}

export function createRowDraft(previous: Snapshot | undefined, expected: number) {
  const worn = previous ? wornChunks(previous.rows) : []
  const writer = createSlabWriter()
  const chunkOf = createColumn(u16, expected)
  const start = createColumn(u32, expected)
  const head = createColumn(u32, expected)
  const length = createColumn(u32, expected)
  let written = 0
  let scratch = Buffer.allocUnsafe(64 * 1024)

  function put(bytes: Uint8Array, headBytes: number): void {
    writer.append(bytes)
    chunkOf.push(NEW)
    start.push(written)
    head.push(headBytes)
    length.push(bytes.byteLength - 1)
    written += 1
  }

  /** A new row; gives the digests of its structure and its prices. */
  function add(
    headText: string,
    tailText: string,
  ): { structure: readonly number[]; pricing: readonly number[] } {
    const most = (headText.length + tailText.length) * 3 + 2 // UTF-8 takes at most three bytes a code unit
    if (scratch.byteLength < most) scratch = Buffer.allocUnsafe(most * 2)
    const headBytes = scratch.write(headText, 0)
    const tailEnd = headBytes + scratch.write(tailText, headBytes)
    scratch[tailEnd] = BRACE
    scratch[tailEnd + 1] = COMMA
    put(scratch.subarray(0, tailEnd + 2), headBytes)
    return {
      structure: digestWords(scratch.subarray(0, headBytes)),
      pricing: digestWords(scratch.subarray(headBytes, tailEnd)),
    }
  }

  /** The row of an entry of the previous snapshot. */
  function keep({ rows }: Snapshot, entry: number): void {
    const chunk = rows.chunkOf[entry] as number
    const from = rows.start[entry] as number
    const bytes = rows.length[entry] as number
    if (worn[chunk]) {
      put((rows.chunks[chunk] as Uint8Array).subarray(from, from + bytes + 1), rows.head[entry] as number)
      return
    }
    chunkOf.push(chunk)
    start.push(from)
    head.push(rows.head[entry] as number)
    length.push(bytes)
  }

  /** An entry without a row. */
  function none(): void {
    for (const column of [chunkOf, start, head, length]) column.push(0)
  }

  function finish(): Rows {
    const slab = writer.finish()
    const rows = {
      chunkOf: chunkOf.finish(),
      start: start.finish(),
      head: head.finish(),
      length: length.finish(),
    }
    const chunks: Uint8Array[] = []
    const numbers = new Map<number, number>()
    const kept = (old: number) => {
      const known = numbers.get(old)
      if (known !== undefined) return known
      const number = chunks.push(previous?.rows.chunks[old] as Uint8Array) - 1
      numbers.set(old, number)
      return number
    }
    for (let entry = 0; entry < rows.length.length; entry += 1) {
      const chunk = rows.chunkOf[entry] as number
      if (chunk !== NEW && rows.length[entry] !== 0) rows.chunkOf[entry] = kept(chunk)
    }
    const base = chunks.length
    for (let entry = 0; entry < rows.length.length; entry += 1) {
      if (rows.chunkOf[entry] !== NEW) continue
      const row = rows.start[entry] as number
      rows.chunkOf[entry] = base + (slab.chunkOf[row] as number)
      rows.start[entry] = slab.start[row] as number
    }
    chunks.push(...slab.chunks)
    return { ...rows, chunks }
  }

  return { add, keep, none, finish }
}
