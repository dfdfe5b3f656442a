/**
 * The bodies of requests, as they come. Nobody has shown credentials yet, and a sender may take half a minute for one, so the bytes
 * of all that are being read, and of requests that wait for the answers before them, have one bound. Where it is passed, the
 * largest of the address that holds most is refused. Memory grows with what has come, whatever a head announces.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createFairGrowth, type Growth } from '../../process/fair-bytes.js'

export const BODY_BYTES = 1024 * 1024 // the largest legal request, 500 references, takes a tenth of it
export const TOO_LARGE = `A request body must not be larger than ${BODY_BYTES} bytes`

const ALL_BYTES = 64 * 1024 * 1024
const FIRST_BYTES = 4 * 1024 // what a connection takes by itself
const NO_BYTES = Buffer.alloc(0)
/** Each chunk takes the thread a microsecond, however small it is; who writes each word of JSON by itself sends fewer. */
const MOST_CRUMBS = 10_000
const CRUMB_BYTES = 64
const TOO_MANY_CRUMBS = `A request body must not come in more than ${MOST_CRUMBS} chunks of less than ${CRUMB_BYTES} bytes each`
const NO_ROOM = 'Too many request bodies are on the way from this address: send them faster, or fewer at once'
const GONE = 'The connection ended before the request'

/** `headers`: of the answer. */
export const fault = (statusCode: number, message: string, headers: Record<string, string> = {}) =>
  Object.assign(new Error(message), { statusCode, headers })
export type BodyFault = ReturnType<typeof fault>

/** The event of a request whose body cannot be read to its end, with the fault. */
const UNREADABLE = 'unreadable'
const unreadable = new WeakMap<IncomingMessage, BodyFault>()

/** Ends the body of a request, whether somebody reads it or will. */
export function endBody(raw: IncomingMessage, why: BodyFault): void {
  unreadable.set(raw, why)
  raw.emit(UNREADABLE, why)
}

/** What tells a sender who waits for it that its body is wanted. */
const waits = new WeakMap<IncomingMessage, () => void>()

/**
 * The sender of a request waits to hear whether its body is wanted (RFC 9110, section 10.1.1). It hears so when the body begins to be
 * read. Where an answer comes before that, Node makes it the last of the connection: the body may follow it, or not.
 */
export function sayWhenRead(request: IncomingMessage, response: ServerResponse): void {
  waits.set(request, () => response.writeContinue())
}

export type BodyDone = (fault: BodyFault | null, body: Buffer) => void

/** Gathers what comes, behind the `first` that has come. */
function gather(
  raw: IncomingMessage,
  first: Buffer | null,
  begin: (giveUp: () => void) => Growth,
  done: BodyDone,
) {
  let body = NO_BYTES
  let filled = 0
  let chunks = 0
  let isOver = false
  const growing = begin(() => end(fault(413, NO_ROOM)))

  function end(why: BodyFault | null): void {
    if (isOver) return
    isOver = true
    growing.end()
    raw.off('data', add).off('end', finish).off('close', leave).off(UNREADABLE, end)
    if (why) raw.pause() // what else comes is not wanted
    done(why, body.subarray(0, filled))
  }

  function makeRoom(length: number): void {
    const larger = Buffer.allocUnsafe(
      Math.min(BODY_BYTES, Math.max(length, 2 * body.byteLength, FIRST_BYTES)),
    )
    growing.grew(larger.byteLength - body.byteLength)
    body.copy(larger, 0, 0, filled)
    body = larger
  }

  function refusal(length: number): string | undefined {
    if (length > BODY_BYTES) return TOO_LARGE
    return chunks > MOST_CRUMBS && length < chunks * CRUMB_BYTES ? TOO_MANY_CRUMBS : undefined
  }

  function add(chunk: Buffer): void {
    chunks += 1
    const length = filled + chunk.byteLength
    const why = refusal(length)
    if (why !== undefined) {
      end(fault(413, why))
      return
    }
    if (length > body.byteLength) makeRoom(length)
    filled += chunk.copy(body, filled)
  }

  const finish = () => end(null)
  const leave = () => end(fault(400, GONE))
  const why = unreadable.get(raw)
  if (why) end(why)
  else if (first) add(first)
  if (!isOver) raw.on('data', add).on('end', finish).on('close', leave).on(UNREADABLE, end)
}

/** `addressOf`: where a request came from. */
export function createBodies(addressOf: (request: IncomingMessage) => string) {
  const all = createFairGrowth(() => ALL_BYTES)
  const begin = (request: IncomingMessage, giveUp: () => void) => all.begin(addressOf(request), giveUp)
  return {
    /** Counts what is read of the sender of a request. */
    begin,
    /** Calls back with the whole body, or with why it is not read to its end. */
    read(raw: IncomingMessage, first: Buffer | null, done: BodyDone): void {
      waits.get(raw)?.()
      gather(raw, first, (giveUp) => begin(raw, giveUp), done)
    },
  }
}

export type Bodies = ReturnType<typeof createBodies>
