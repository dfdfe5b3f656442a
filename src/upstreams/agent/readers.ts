/**
 * Reads what agents and registries sent without blocking the serving thread: what is small in place, what is large in a thread.
 * There is one pool per process, whose threads start when they are needed.
 */
import { availableParallelism } from 'node:os'
import { isLent } from '../../process/memory.js'
import { createPool, NotBegun } from '../../process/thread-pool.js'
import { type Directory, readDirectory } from '../rows/directory.js'
import { readListing } from '../rows/registry-records.js'
import { type CallFailure, callFailed } from './agent.js'
import { type ReadAnswer, type ReaderJob, type ReaderReply, type ReadingJob, readMessages } from './answer.js'
import { type Card, readCard } from './card.js'

export const SMALL_BYTES = 16 * 1024 // takes well under a millisecond, whatever it holds
const MOST_READERS = 4
const READER_HEAP_MB = 512
const READING_MS = 20_000
const WAITING_BYTES = 256 * 1024 ** 2

type RegistryListing = ReturnType<typeof readListing>

/** Memory that belongs to one message alone can be transferred, with room behind it; part of a larger buffer is copied. */
function owned(message: Uint8Array, isAlone: boolean): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = message
  return isAlone && buffer instanceof ArrayBuffer
    ? new Uint8Array(buffer, byteOffset, byteLength)
    : new Uint8Array(message)
}

const isAlone = (body: Uint8Array) => isLent(body) || body.buffer.byteLength === body.byteLength

const readers = createPool<ReaderJob, ReaderReply>({
  code: new URL('./answer.js', import.meta.url),
  size: Math.max(1, Math.min(MOST_READERS, availableParallelism() - 1)),
  heapMb: READER_HEAP_MB,
  jobMs: READING_MS,
  waitingBytes: WAITING_BYTES,
})

/**
 * `key`: whose answer it is; answers with one key are read one after another. The messages are transferred. `areAlone`: each has its
 * memory to itself.
 */
export async function readReply(key: string, job: ReadingJob, areAlone = false): Promise<ReadAnswer> {
  const size = job.messages.reduce((sum, { byteLength }) => sum + byteLength, 0)
  if (size === 0) return { kind: 'none' }
  if (size <= SMALL_BYTES) return readMessages(job)
  const messages = job.messages.map((message) => owned(message, areAlone || isAlone(message)))
  try {
    return (await readers.run(
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

/** What a thread makes of a body, which is transferred. Throws when no thread can be had, or it ended because of the body. */
async function inThread(
  key: string,
  body: Uint8Array,
  jobOf: (bytes: Uint8Array) => ReaderJob,
): Promise<ReaderReply> {
  const bytes = owned(body, isAlone(body))
  return await readers.run(key, jobOf(bytes), [bytes.buffer], bytes.byteLength)
}

/** The card in an answer; undefined when there is none. The body is transferred. `secrets`: what the agent was sent. */
export async function readCardReply(
  key: string,
  body: Uint8Array,
  secrets: readonly string[] = [],
): Promise<Card | CallFailure | undefined> {
  if (body.byteLength <= SMALL_BYTES) return readCard(body, secrets)
  try {
    return (await inThread(key, body, (card) => ({ card, secrets }))) as Card | undefined
  } catch (error) {
    if (error instanceof NotBegun) return callFailed('over_memory', `agent card: ${error.message}`)
    return undefined // the thread ended because of it, so it cannot be read
  }
}

const unreadable = () => undefined

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
  const read = await inThread(key, body, (registry) => ({ registry, secrets })).catch(unreadable)
  return read as RegistryListing
}

/** The same of what a registry says for those who ask us, as far as it takes no more than `room` bytes. */
export async function directoryIn(
  key: string,
  body: Uint8Array,
  room: number,
): Promise<Directory | undefined> {
  if (body.byteLength <= SMALL_BYTES) return readDirectory(body, room)
  const read = await inThread(key, body, (directory) => ({ directory, room })).catch(unreadable)
  return read as Directory | undefined
}
