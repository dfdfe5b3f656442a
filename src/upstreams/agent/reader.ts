/**
 * Reads replies without blocking the serving thread. Small answers are read in place, large ones in a thread; there is one pool
 * per process, whose threads start when they are needed.
 */
import { availableParallelism } from 'node:os'
import { isLent } from '../../process/memory.js'
import { createPool, NotBegun } from '../../process/threads.js'
import { readListing } from '../rows/registry-records.js'
import { holdsResponse, type ReadAnswer, type ReaderJob, type ReadingJob, readMessages } from './answer.js'
import type { MessageKind } from './event-stream.js'

const SMALL_BYTES = 16 * 1024 // takes well under a millisecond, whatever it holds
const FIELD_BYTES = 16 // `data: ` before a message of an event stream, and its mark
const MOST_THREADS = 4
const HEAP_MB = 512
const JOB_MS = 20_000
const WAITING_BYTES = 256 * 1024 ** 2

type RegistryListing = ReturnType<typeof readListing>

/**
 * Whether a message of a stream may be the response to request `id`. A message without a result and an error cannot be,
 * and is not parsed, because a stream may bring thousands of messages. A large message is not parsed here either: it is
 * taken for the response, and `readReply` checks it.
 */
export function messageKind(message: Buffer, id: number): MessageKind {
  if (!message.includes('"id"')) return 'other'
  const isAnswer = message.includes('"result"') || message.includes('"error"')
  if (message.byteLength <= SMALL_BYTES) return isAnswer && holdsResponse(message, id) ? 'last' : 'other'
  return isAnswer ? 'last' : 'candidate'
}

/**
 * Memory that belongs to one message alone can be transferred, even with a field's name in front, or room behind it that it
 * was lent with; part of a larger buffer is copied.
 */
function owned(message: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = message
  const isAlone = isLent(message) || buffer.byteLength - byteLength <= FIELD_BYTES
  return isAlone && buffer instanceof ArrayBuffer
    ? new Uint8Array(buffer, byteOffset, byteLength)
    : new Uint8Array(message)
}

const pool = createPool<ReaderJob, ReadAnswer | RegistryListing>({
  code: new URL('./answer.js', import.meta.url),
  size: Math.max(1, Math.min(MOST_THREADS, availableParallelism() - 1)),
  heapMb: HEAP_MB,
  jobMs: JOB_MS,
  waitingBytes: WAITING_BYTES,
})

/** `key`: whose answer it is; answers with one key are read one after another. The messages are transferred. */
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
    // Too many bytes wait, or no thread can be had; else this answer alone ended its thread.
    const kind = error instanceof NotBegun ? 'no_room' : 'too_large'
    return { kind, message: (error as Error).message }
  }
}

/**
 * The registry listing in an answer; undefined when there is none. The body is transferred. `secrets`: what the
 * registry was sent.
 */
export async function readRegistry(
  key: string,
  body: Uint8Array,
  secrets: readonly string[],
): Promise<RegistryListing> {
  if (body.byteLength <= SMALL_BYTES) return readListing(body, secrets)
  const registry = owned(body)
  try {
    return (await pool.run(
      key,
      { registry, secrets },
      [registry.buffer],
      registry.byteLength,
    )) as RegistryListing
  } catch {
    return undefined // the thread ended because of it, so it cannot be read
  }
}
