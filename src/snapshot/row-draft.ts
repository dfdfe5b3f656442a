/** New rows of a snapshot, written one behind the other into shared memory. */
import type { Row } from '../merge/row.js'
import { createChunks } from './chunks.js'
import type { Writers } from './draft.js'

const BRACE = 0x7d
const COMMA = 0x2c

export function createRowDraft({ chunkOf, start, head, length }: Writers['rows']) {
  const chunks = createChunks()

  function push(chunk: number, from: number, headBytes: number, bytes: number): void {
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
    push(chunk, from, headEnd - from, tailEnd + 1 - from)
  }

  /** An entry without a row. */
  function none(): void {
    push(0, 0, 0, 0)
  }

  return { add, none, chunks: chunks.finish }
}
