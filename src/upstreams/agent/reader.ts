/**
 * Reads the answers of agents without blocking the serving thread: small answers in place, large ones in a thread.
 * There is one pool per process, whose threads start when they are needed.
 */
import { availableParallelism } from 'node:os'
import { createPool } from '../../threads/pool.js'
import { readListingBytes } from '../rows/registry-records.js'
import type { MessageKind } from './event-stream.js'
import { holdsResponse, type ReadAnswer, type ReadingJob, readMessages } from './read-messages.js'

const SMALL_BYTES = 16 * 1024 // takes well under a millisecond, whatever it holds
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
 * Memory that belongs to one message alone can be transferred, even with a field's name in front; part of a larger
 * buffer is copied.
 */
function owned(message: Uint8Array): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = message
  const isWhole = buffer instanceof ArrayBuffer && buffer.byteLength - byteLength <= FIELD_BYTES
  return isWhole ? new Uint8Array(buffer, byteOffset, byteLength) : new Uint8Array(message)
}

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
    // This answer alone ended the thread, or it was given up because too many bytes wait.
    return { kind: 'too_large', message: (error as Error).message }
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
    return undefined // the thread ended because of it, so it cannot be read
  }
}
