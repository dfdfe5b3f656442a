/**
 * What an upstream answered to one question as a slice, so that it is authorized and merged as everything that was read of an
 * upstream is. Pure.
 */
import type { ReadRows } from './read-rows.js'
import type { Slice } from './slice.js'

const MOST_ROWS = 100

/** It outlives the question, so it has no id of its upstream, which may come to stand for another agent. */
export type FoundSlice = Omit<Slice, 'upstream'>

/** Who was asked, and for whom. */
type AskedUpstream = Pick<Slice, 'agentUrl' | 'scope'>

/**
 * Rows of one upstream as a slice; marked as enumerated, because an answer to a question need not hold all rows. `now`
 * in ms.
 */
export function foundSlice(
  { agentUrl, scope }: AskedUpstream,
  { ends, bytes, segments, digests, dropped, pricedFor }: ReadRows,
  now: number,
): FoundSlice {
  const rows = new Map<bigint, number>() // one handle stands for one signal
  for (const [row, segment] of segments.entries()) rows.set(segment, row)
  const kept = [...rows.values()]
  const start = Uint32Array.from(kept, (row) => ends[row - 1] ?? 0)
  const length = Uint32Array.from(kept, (row, at) => (ends[row] as number) - (start[at] as number))
  const chunkOf = new Uint16Array(kept.length)
  return {
    agentUrl,
    scope,
    mode: 'enumerated',
    rows: { count: kept.length, chunks: [bytes], chunkOf, start, length }, // the bytes as they were read: no copy
    digests: BigUint64Array.from(kept, (row) => digests[row] as bigint),
    dropped,
    ...(pricedFor !== undefined && { pricedFor }),
    walkedAt: now,
  }
}

/** The first rows of an answer; what is left out takes no memory. */
function firstRows(read: ReadRows): ReadRows {
  const { ends, bytes, segments, digests } = read
  if (ends.length <= MOST_ROWS) return read
  return {
    ...read,
    ends: ends.slice(0, MOST_ROWS),
    bytes: bytes.slice(0, ends[MOST_ROWS - 1]),
    segments: segments.slice(0, MOST_ROWS),
    digests: digests.slice(0, MOST_ROWS),
  }
}

/** The rows of a brief answer as a slice. */
export function answerSlice(asked: AskedUpstream, rows: ReadRows, now: number): FoundSlice {
  return foundSlice(asked, firstRows(rows), now)
}
