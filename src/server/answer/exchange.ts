/**
 * One request to a transport and its response: the ids they get, the bytes that leave, and the fast lane.
 *
 * An answer is made of text and prepared bytes, and its pieces are handed to the socket as they are: joining them first costs
 * two thirds of the throughput of a page (docs/decisions.md#serving-from-bytes). The fast lane is for requests that arrive
 * thousands of times a second: a plain POST to a transport is read from the socket and answered here, without Fastify's
 * routing, hooks, request and reply objects. A request that is not plain (another media type, an encoding, a body of unknown
 * or great length) goes to Fastify's route for the same path, which ends in the same function and
 * handles every fault.
 */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { bufferOf } from '../../adcp/json.js'
import { giveBack, isLent } from '../../process/memory.js'
import type { Bodies, BodyDone, BodyFault } from './bodies.js'
import { closeAfterNewest, inItsTurn } from './connection.js'
import { INVALID_MESSAGE, rpcError } from './json-rpc.js'
import type { AnswerPayload } from './payload.js'
import { isHostSound, isOurVersion, toPath } from './target.js'

const NO_BODY = new Uint8Array(0)
const MOST_BYTES = 64 * 1024 // the usual request has a few hundred
const PLAIN_TYPES: ReadonlySet<string | undefined> = new Set([
  'application/json',
  'application/json; charset=utf-8',
  'application/json;charset=utf-8',
])

/** One request and its response, whether Fastify read it from the socket or the fast lane before it. */
export type Exchange = {
  readonly raw: IncomingMessage
  /** Absent where a request has none. */
  readonly body?: unknown
  readonly response: ServerResponse
  /** Of the request, for log lines and for its sender. */
  readonly id: string
  /** Whether the server takes further connections: one that closes does not. */
  isListening(): boolean
}

export type Chunk = string | Uint8Array

type Take = (exchange: Exchange) => void | Promise<void>

type FastLaneOptions = {
  idOf(request: IncomingMessage): string
  /** False: every request goes to Fastify. */
  isOpen: boolean
  bodies: Bodies
  /** Answers a request whose body is not read to its end. */
  refuse(exchange: Exchange, why: BodyFault): void
  /** Receives errors on our side; the caller has been answered. */
  onBug(error: unknown, requestId: string): void
  /** As `node:http` has them, ms. Of those for headers and for the whole request, Node takes the longer one for the request. */
  timeouts: Pick<Server, 'headersTimeout' | 'keepAliveTimeout' | 'requestTimeout' | 'timeout'>
}

/** A caller's own request id when it is harmless in a log line, else one of ours. */
export function createRequestIds(): (request: { headers: Record<string, unknown> }) => string {
  const prefix = randomBytes(6).toString('base64url')
  let count = 0
  return ({ headers }) => {
    const given = headers['x-request-id']
    return typeof given === 'string' && /^[\w.:-]{1,64}$/.test(given) ? given : `${prefix}-${++count}`
  }
}

/** The exchange of a request that Fastify has read; the reply is ours from here on. */
function exchangeOf(reply: FastifyReply): Exchange {
  const { raw, body, id } = reply.request
  const { server } = reply.server
  reply.hijack()
  return { raw, body, response: reply.raw, id, isListening: () => server.listening }
}

/** The bytes of a request's body; none where it has none. */
export function bodyBytes({ body }: Pick<Exchange, 'body'>): Uint8Array {
  return body instanceof Uint8Array ? body : NO_BODY
}

/** Chunks that are sent again and again: text would be put into bytes each time, and bytes under the name that Node writes. */
export function asBytes(chunks: readonly Chunk[]): Buffer[] {
  return chunks.map((chunk) => (typeof chunk === 'string' ? Buffer.from(chunk) : bufferOf(chunk)))
}

/** A payload between what a transport writes before and after it. */
export function wrapped(before: string, payload: AnswerPayload, after: string): Chunk[] {
  const { head, rows, tail } = payload
  if (rows.length === 0) return [before + head + tail + after]
  return [before + head, ...rows, tail + after]
}

/**
 * The payload as the inside of a JSON string, quotes included. Rows are JSON already, so only quotes and backslashes
 * can need an escape, and those are single bytes in UTF-8: Latin-1 carries all other bytes through unchanged.
 */
export function quoted(payload: AnswerPayload): Chunk[] {
  const { head, rows, tail } = payload
  const open = JSON.stringify(head).slice(0, -1)
  if (rows.length === 0) return [`${open}${JSON.stringify(tail).slice(1)}`]
  const escaped = (row: Uint8Array) =>
    Buffer.from(JSON.stringify(bufferOf(row).toString('latin1')).slice(1, -1), 'latin1')
  return [open, ...rows.map(escaped), JSON.stringify(tail).slice(1)]
}

/** All chunks as one text, for the paths that are not hot. */
export function textOf(chunks: readonly Chunk[]): string {
  return chunks.map((chunk) => (typeof chunk === 'string' ? chunk : bufferOf(chunk).toString())).join('')
}

function byteLength(chunk: Chunk): number {
  return typeof chunk === 'string' ? Buffer.byteLength(chunk) : chunk.byteLength
}

/**
 * Sends the chunks as one response with its length declared. Text stays text until the socket, where Node writes it with
 * the header in one piece; texts beside each other are joined only then, because joining copies. Headers are names and values
 * in turn.
 * Lent memory is given back when the last byte has left; when the connection breaks before that, it is not.
 */
export function sendChunks(
  { response, id, isListening }: Exchange,
  status: number,
  headers: readonly string[],
  chunks: readonly Chunk[],
): void {
  let length = 0
  let borrowed: Uint8Array[] | undefined
  for (const chunk of chunks) {
    length += byteLength(chunk)
    if (typeof chunk !== 'string' && isLent(chunk)) borrowed = [...(borrowed ?? []), chunk]
  }
  // A server that closes finishes this answer, and those that were asked for on the same connection, and waits for no other.
  if (!isListening()) closeAfterNewest(response)
  response.writeHead(status, ['content-length', String(length), 'x-request-id', id, ...headers])
  response.cork()
  let text = ''
  for (const chunk of chunks) {
    if (typeof chunk === 'string') text += chunk
    else {
      if (text !== '') response.write(text)
      response.write(chunk)
      text = ''
    }
  }
  if (borrowed) response.end(text, () => borrowed.forEach(giveBack))
  else response.end(text)
  response.uncork()
}

/** The length that a plain request says its body has; undefined for a request that is not plain. */
function plainLength(request: IncomingMessage): number | undefined {
  const { method, headers } = request
  if (method !== 'POST' || !PLAIN_TYPES.has(headers['content-type'])) return undefined
  if (!isOurVersion(request) || !isHostSound(request)) return undefined
  if (headers['content-encoding'] !== undefined || headers.expect !== undefined) return undefined
  const length = Number(headers['content-length'])
  return length > 0 && length <= MOST_BYTES ? length : undefined
}

export function createFastLane({ idOf, bodies, refuse, onBug, timeouts, isOpen }: FastLaneOptions) {
  const lanes = new Map<string | undefined, Take>()
  let server: Server | undefined
  const isListening = () => server?.listening === true

  function fail(error: unknown, exchange: Exchange): void {
    onBug(error, exchange.id)
    const message = rpcError('null', INVALID_MESSAGE, 'Something went wrong on our side')
    if (exchange.response.headersSent) exchange.response.destroy()
    else sendChunks(exchange, 500, ['content-type', 'application/json'], [message])
  }

  function safely(take: Take, exchange: Exchange): void {
    try {
      const taking = take(exchange)
      if (taking) taking.catch((error: unknown) => fail(error, exchange))
    } catch (error) {
      fail(error, exchange)
    }
  }

  /** A client that closes the connection before its end gets no answer. */
  function refuseBody(raw: IncomingMessage, response: ServerResponse, why: BodyFault): void {
    if (!response.destroyed) refuse({ raw, response, id: idOf(raw), isListening }, why)
  }

  /**
   * The parser has put what came together with the head into the stream before the next tick: usually that is all of it, and
   * taking it out then costs a microsecond less than listening for it.
   */
  function readWhole(raw: IncomingMessage, length: number, done: BodyDone): void {
    process.nextTick(() => {
      const first = raw.read() as Buffer | null
      if (first?.byteLength === length) done(null, first)
      else bodies.read(raw, first, done)
    })
  }

  return {
    /** Runs before the listeners of an app's server; requests that it does not take go to them. */
    before(app: FastifyInstance): void {
      const own = app.server
      const listeners = own.listeners('request') as RequestListener[]
      server = own
      own.removeAllListeners('request')
      own.on('request', (raw: IncomingMessage, response: ServerResponse) => {
        toPath(raw)
        const take = isOpen ? lanes.get(raw.url) : undefined
        const length = take && plainLength(raw)
        if (take && length !== undefined)
          readWhole(raw, length, (why, body) => {
            if (why) refuseBody(raw, response, why)
            else inItsTurn(response, () => safely(take, { raw, body, response, id: idOf(raw), isListening }))
          })
        else for (const listener of listeners) listener.call(own, raw, response)
      })
      Object.assign(own, timeouts)
    },
    /** The functions that answer POST requests, by path, whichever way a request comes. */
    post(app: FastifyInstance, path: string, take: Take): void {
      lanes.set(path, take)
      app.post(path, (_request, reply) => safely(take, exchangeOf(reply)))
    },
  }
}

export type FastLane = ReturnType<typeof createFastLane>
