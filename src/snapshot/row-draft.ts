/**
 * The rows of a snapshot being written. A row that did not change stays where it lies, in a chunk that both snapshots
 * share; chunks that hold mostly dead rows are left and their live rows written anew.
 */
import type { Row } from '../merge/row.js'
import { createChunks } from './chunks.js'
import { createColumn, u8, u16, u32 } from './columns.js'
import type { Rows, Snapshot } from './snapshot.js'

const LIVE_SHARE = 0.75
/** Small builds leave small chunks: beyond this many, the small ones are written anew together. */
const MOST_SMALL_CHUNKS = 32
const SMALL_CHUNK = 1024 * 1024
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
  const chunks = createChunks()
  /** Chunks of the previous snapshot that stay in use, in order of first use. */
  const kept: number[] = []
  const keptAs = new Int32Array(previous?.rows.chunks.length ?? 0).fill(-1)
  const chunkOf = createColumn(u16, expected)
  const isNew = createColumn(u8, expected)
  const start = createColumn(u32, expected)
  const head = createColumn(u32, expected)
  const length = createColumn(u32, expected)

  function push(fresh: boolean, chunk: number, from: number, headBytes: number, bytes: number): void {
    isNew.push(fresh ? 1 : 0)
    chunkOf.push(chunk)
    start.push(from)
    head.push(headBytes)
    length.push(bytes)
  }

  /** A new row, written where it will lie. */
  function add({ head: headText, tail }: Row): void {
    const most = (headText.length + tail.length) * 3 + 2 // UTF-8 takes at most three bytes a code unit
    const { buffer, start: from } = chunks.room(most)
    const headEnd = from + buffer.write(headText, from)
    const tailEnd = headEnd + buffer.write(tail, headEnd)
    buffer[tailEnd] = BRACE
    buffer[tailEnd + 1] = COMMA
    const { chunk } = chunks.take(tailEnd + 2 - from)
    push(true, chunk, from, headEnd - from, tailEnd + 1 - from)
  }

  /** The row of an entry of the previous snapshot: where it lies, or written anew when its chunk is left. */
  function keep({ rows }: Snapshot, entry: number): void {
    const chunk = rows.chunkOf[entry] as number
    const from = rows.start[entry] as number
    const headBytes = rows.head[entry] as number
    const bytes = rows.length[entry] as number
    if (worn[chunk]) {
      const { buffer, start: to } = chunks.room(bytes + 1)
      buffer.set((rows.chunks[chunk] as Uint8Array).subarray(from, from + bytes + 1), to)
      push(true, chunks.take(bytes + 1).chunk, to, headBytes, bytes)
      return
    }
    if ((keptAs[chunk] as number) < 0) keptAs[chunk] = kept.push(chunk) - 1
    push(false, keptAs[chunk] as number, from, headBytes, bytes)
  }

  /** An entry without a row. */
  function none(): void {
    push(false, 0, 0, 0, 0)
  }

  /** Kept chunks come first, the new ones behind them. */
  function finish(): Rows {
    const chunkOfEntry = chunkOf.finish()
    const fresh = isNew.finish()
    chunkOfEntry.forEach((chunk, entry) => {
      if (fresh[entry]) chunkOfEntry[entry] = kept.length + chunk
    })
    return {
      chunks: [...kept.map((chunk) => previous?.rows.chunks[chunk] as Uint8Array), ...chunks.finish()],
      chunkOf: chunkOfEntry,
      start: start.finish(),
      head: head.finish(),
      length: length.finish(),
    }
  }

  return { add, keep, none, finish }
}
