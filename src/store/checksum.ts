/**
 * Checksums of what is stored (CRC-32, as in gzip). A process with a million signals has gigabytes to check at its start, and tens
 * of megabytes to sum up after a change: two threads do that, and the thread that serves only waits for them.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import { answerJobs, createPool } from '../process/threads.js'

const HERE_BYTES = 2 * 1024 * 1024 // half a millisecond: asking a thread would take as long

const threads = createPool<Uint8Array, number>({
  code: new URL('./checksum.js', import.meta.url),
  ...{ size: 2, heapMb: 32, jobMs: 60_000 },
})

let summed = 0 // bytes since others were served: of many small parts as of one that is large

/** In portions, between which others are served. */
async function sumHere(part: Uint8Array): Promise<number> {
  let sum = 0
  for (let at = 0; at < part.byteLength; at += HERE_BYTES) {
    const portion = part.subarray(at, at + HERE_BYTES)
    if (summed + portion.byteLength > HERE_BYTES) {
      await nextTurn()
      summed = 0
    }
    sum = crc32(portion, sum)
    summed += portion.byteLength
  }
  return sum
}

/** Of shared memory in a thread, and where there is none to be had, or the part is small, on this one. */
export function checksumOf(part: Uint8Array): Promise<number> {
  const isForThreads = part.byteLength > HERE_BYTES && part.buffer instanceof SharedArrayBuffer
  return isForThreads ? threads.run('', part, [], part.byteLength).catch(() => sumHere(part)) : sumHere(part)
}

/** Parts are in shared memory, and only the checksum comes back. */
answerJobs(import.meta.url, (part: Uint8Array) => crc32(part))
