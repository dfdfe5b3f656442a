/**
 * Reads replies without blocking the serving thread. Messages are taken from server-sent events (HTML standard, "Server-sent
 * events"): from the stream that answered and, when it broke off, from the streams that resume it, each byte once, wherever
 * lines and chunks break. Small answers are read in place, large ones in a thread; there is one pool per process, whose
 * threads start when they are needed.
 */
import { availableParallelism } from 'node:os'
import { createGathering, type Gathering } from '../../net/body.js'
import { isLent } from '../../process/memory.js'
import { createPool, NotBegun } from '../../process/threads.js'
import { readListing } from '../rows/registry-records.js'
import { holdsResponse, type ReadAnswer, type ReaderJob, type ReadingJob, readMessages } from './answer.js'

const SMALL_BYTES = 16 * 1024 // takes well under a millisecond, whatever it holds
const FIELD_BYTES = 16 // `data: ` before a message of an event stream, and its mark
const MOST_THREADS = 4
const HEAP_MB = 512
const JOB_MS = 20_000
const WAITING_BYTES = 256 * 1024 ** 2
const USABLE_ID = /^[\x21-\x7e]{1,1024}$/ // it is copied into a header
const MAX_EVENTS = 10_000
const MAX_LINES = 100_000 // per event; each line costs more memory than its bytes
const LF = 0x0a
const CR = 0x0d
const COLON = 0x3a
const SPACE = 0x20
const MARK = Buffer.from('\ufeff')
const EMPTY = Buffer.alloc(0)
const LINE_BREAK = Buffer.from('\n')

type RegistryListing = ReturnType<typeof readListing>

/** `last`: nothing after it matters. */
type MessageKind = 'other' | 'candidate' | 'last'

export type EventStream = {
  /** A stream begins. Returns the reader of its chunks, which says when no more is wanted. */
  begin(): (chunk: Uint8Array) => boolean
  /** The stream has ended. Returns the messages that may be the response, from all streams. */
  end(): readonly Uint8Array[]
  /** The id of the event after which to resume; undefined when the stream cannot be resumed. */
  lastEventId(): string | undefined
  /** The wait that the server asked for, ms. */
  retryMs(): number | undefined
  /** Of all streams so far. */
  bytes(): number
}

/** Whether an answer with these headers is a stream of events. */
export function isEventStream(headers: Record<string, string>): boolean {
  return headers['content-type']?.includes('text/event-stream') ?? false
}

/**
 * Splits chunks into lines that end in CR, LF or both, and passes each complete line on. `isOwn`: the line has its own
 * memory, because it was joined from several chunks.
 */
function createLines(onLine: (line: Buffer, isOwn: boolean) => void) {
  let begun: Gathering | undefined // of a line that is not complete yet
  let afterCr = false

  function feed(chunk: Buffer): void {
    let from = 0
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]
      if (byte !== LF && byte !== CR) continue
      if (byte === LF && afterCr && at === from && !begun) from = at + 1
      else {
        const rest = at === from ? EMPTY : chunk.subarray(from, at)
        if (begun) {
          begun.add(rest) // joined at once
          onLine(Buffer.concat(begun.chunks()), true)
        } else onLine(rest, false)
        begun = undefined
        from = at + 1
      }
      afterCr = byte === CR
    }
    if (from < chunk.length) {
      begun ??= createGathering()
      begun.add(Buffer.from(chunk.subarray(from)))
      afterCr = false
    }
  }

  return { feed }
}

/** The field's name and value; a comment has an empty name. */
function fieldOf(line: Buffer): { name: string; value: Buffer } {
  const colon = line.indexOf(COLON)
  if (colon === -1) return { name: line.toString('latin1', 0, 16), value: EMPTY }
  const from = line[colon + 1] === SPACE ? colon + 2 : colon + 1
  return { name: line.toString('latin1', 0, Math.min(colon, 16)), value: line.subarray(from) }
}

function joined(lines: readonly Buffer[]): Buffer {
  const [first] = lines
  if (first && lines.length === 1) return first
  return Buffer.concat(lines.flatMap((line, at) => (at === 0 ? [line] : [LINE_BREAK, line])))
}

/** `kindOf` tells whether a message may be the awaited response. */
export function createEventStream(kindOf: (message: Buffer) => MessageKind): EventStream {
  const found: Buffer[] = []
  let isOver = false
  let events = 0
  let bytes = 0
  let lastEventId: string | undefined
  let retryMs: number | undefined
  let finish = () => {}

  function begin() {
    let data: Buffer[] = []
    let id: string | undefined
    let isWhole = true
    let isFirst = true

    function dispatch(): void {
      if (isWhole && id !== undefined) lastEventId = USABLE_ID.test(id) ? id : undefined
      id = undefined
      if (data.length === 0) return
      const message = joined(data)
      data = []
      const kind = kindOf(message)
      if (kind !== 'other') found.push(message)
      events += 1
      if (kind === 'last' || events === MAX_EVENTS) isOver = true
    }

    function take(raw: Buffer, isOwn: boolean): void {
      if (isOver) return
      const line = isFirst && raw.indexOf(MARK) === 0 ? raw.subarray(MARK.length) : raw
      isFirst = false
      if (line.length === 0) {
        dispatch()
        return
      }
      const { name, value } = fieldOf(line)
      if (name === 'data') {
        data.push(isOwn ? value : Buffer.from(value))
        if (data.length === MAX_LINES) isOver = true
      } else if (name === 'id') id = value.toString()
      else if (name === 'retry' && /^\d{1,9}$/.test(value.toString('latin1', 0, 10))) {
        retryMs = Number(value.toString())
      }
    }

    const lines = createLines(take)
    finish = () => {
      isWhole = false // half an event may hold a whole response, but a stream is never resumed after it
      lines.feed(Buffer.from('\n\n'))
    }
    return (chunk: Uint8Array) => {
      bytes += chunk.byteLength
      lines.feed(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength))
      return isOver
    }
  }

  return {
    begin,
    /** The last event may lack its closing blank line. */
    end() {
      finish()
      finish = () => {}
      return found
    },
    lastEventId: () => lastEventId,
    retryMs: () => retryMs,
    bytes: () => bytes,
  }
}

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
