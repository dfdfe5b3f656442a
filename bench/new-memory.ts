/**
 * Memory that a process has not had before: the system hands it out in pages of 4 KB as each is first written to. Where a host
 * lends memory to its guests, what lay idle for seconds was taken back, and costs several times as much. Run as a process of its
 * own, with a number of bytes, it takes that much, and leaves it to the system for whoever comes next.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const CHUNK = 8 * 1024 * 1024
const PAGE = 4_096
const HERE = fileURLToPath(import.meta.url)

/** Kept, so that no memory is met a second time. */
const chunks: Uint8Array[] = []

/** Writes to so much new memory; gives the microseconds that a page of 4 KB took. */
export function writeToNew(bytes: number): number {
  const startedAt = performance.now()
  for (let done = 0; done < bytes; done += CHUNK) {
    const chunk = new Uint8Array(new SharedArrayBuffer(CHUNK))
    for (let at = 0; at < CHUNK; at += PAGE) chunk[at] = 1
    chunks.push(chunk)
  }
  return ((performance.now() - startedAt) / (bytes / PAGE)) * 1_000
}

/** Sees to it that the system has so much memory at hand, so that what is measured next does not pay for the host's. */
export async function haveAtHand(bytes: number): Promise<void> {
  const [code] = (await once(fork(HERE, [String(bytes)]), 'exit')) as [number | null]
  if (code !== 0) throw new Error(`no process could have ${bytes} bytes of memory`)
}

if (process.argv[1] === HERE) writeToNew(Number(process.argv[2]))
