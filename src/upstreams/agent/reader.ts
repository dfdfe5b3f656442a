/**
 * Reads what agents answered without holding up whoever serves: small answers where they are, large ones in a thread.
 * There is one pool in a process, as there is one of libuv: its threads start when they are needed.
 */
import { availableParallelism } from 'node:os'
import { createPool } from '../../threads/pool.js'
import { readListingBytes } from '../rows/registry-listing.js'
import type { MessageKind } from './event-stream.js'
import { holdsResponse, type ReadAnswer, type ReadingJob, readMessages } from './reading.js'

const SMALL_BYTES = 16 * 1024 // read in well under a millisecond, whatever it holds
const FIELD_BYTES = 16 // `data: ` before a message of an event stream, and its mark
const MOST_THREADS = 4
const HEAP_MB = 512
const JOB_MS = 20_000
const WAITING_BYTES = 256 * 1024 ** 2

type RegistryListing = ReturnType<typeof readListingBytes>
export type ReaderJob = ReadingJob | { registry: Uint8Array; secrets: readonly string[] }

const pool = createPool<ReaderJob, ReadAnswer | RegistryListing>({
  code: new URL('./reading-worker.js', import.meta.url),
  size: Math.max(1, Math.min(MOST_THREADS, availableParallelism() - 1)),
  heapMb: HEAP_MB,
  jobMs: JOB_MS,
  waitingBytes: WAITING_BYTES,
})

/**
 * Whether a message of a stream is the response to request `id`. What has no result and no error in it is none, and is not
 * parsed: a stream may bring thousands of messages. Neither is a large one, which is taken for the last: `readReply`
 * finds out.
 */
export function messageKind(message: Buffer, id: number): MessageKind {
  if (!message.includes('"id"')) return 'other'
  const isAnswer = message.includes('"result"') || message.includes('"error"')
  if (message.byteLength <= SMALL_BYTES) return isAnswer && holdsResponse(message, id) ? 'last' : 'other'
  return isAnswer ? 'last' : 'candidate'
}

/**
 * Memory that a message has for itself can be handed over, also where a field's name stands before it; a part of
 * something larger is copied.
 */
function owned(message: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = message
  const isWhole = buffer instanceof ArrayBuffer && buffer.byteLength - byteLength <= FIELD_BYTES
  return isWhole ? new Uint8Array(buffer, byteOffset, byteLength) : new Uint8Array(message)
}

/** `key`: whose answer it is; the readings of one wait for each other. The messages are given away. */
export async function readReply(key: string, job: ReadingJob): Promise<ReadAnswer> {
  const size = job.messages.reduce((sum, { byteLength }) => sum + byteLength, 0)
  if (size === 0) return { kind: 'none' }
  if (size <= SMALL_BYTES) return readMessages(job)
  const messages = job.messages.map(owned)
  try {
    return (await pool.run(
      key,
      { ...job, messages },
      messages.map(({ buffer }) => buffer),
      size,
    )) as ReadAnswer
  } catch (error) {
    // The thread died of this answer alone, or it was given up because too much waits.
    return { kind: 'too_large', message: (error as Error).message }
  }
}

/**
 * A registry's listing out of what it answered; undefined when that is none. The body is given away.
 * `secrets`: what the registry was shown.
 */
export async function readRegistry(
  key: string,
  body: Uint8Array,
  secrets: readonly string[],
): Promise<RegistryListing> {
  if (body.byteLength <= SMALL_BYTES) return readListingBytes(body, secrets)
  const registry = owned(body)
  try {
    return (await pool.run(
      key,
      { registry, secrets },
      [registry.buffer],
      registry.byteLength,
    )) as RegistryListing
  } catch {
    return undefined // the thread died of it: nothing that can be read
  }
}
