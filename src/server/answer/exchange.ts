/**
 * One request to a transport and its response: the ids they get, the bytes that leave, as they are or in gzip, and the fast lane.
 *
 * An answer is made of text and prepared bytes, and its pieces are handed to the socket as they are: joining them first costs
 * two thirds of the throughput of a page (docs/decisions.md#serving-from-bytes). The fast lane is for requests that arrive
 * thousands of times a second: a plain POST to a transport is read from the socket and answered here, without Fastify's
 * routing, hooks, request and reply objects. A request that is not plain (another media type, an encoding, a body of unknown
 * or great length, a server that closes) goes to Fastify's route for the same path, which ends in the same function and
 * handles every fault.
 *
 * Pages are compressed once and sent many times. A gzip answer is put together from a stored block with what is the caller's (id,
 * context, message), the compressed rows as they were prepared, and a stored block again: a page in gzip costs less than the same
 * page as it is, where compressing it for each answer would cost ten times as much.
 */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import { isIPv6 } from 'node:net'
import { constants, crc32, deflateRaw } from 'node:zlib'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { LRUCache } from 'lru-cache'
import { bufferOf } from '../../adcp/json.js'
import { createRecent, giveBack, isLent } from '../../process/memory.js'
import { INVALID_MESSAGE, rpcError } from './json-rpc.js'
import type { AnswerPayload } from './payload.js'

const NO_BODY = new Uint8Array(0)
const MOST_BYTES = 64 * 1024 // the usual request has a few hundred
const PLAIN_TYPES: ReadonlySet<string | undefined> = new Set([
  'application/json',
  'application/json; charset=utf-8',
  'application/json;charset=utf-8',
])

const CACHE_BYTES = 64 * 1024 * 1024
const SEEN_PIECES = 20_000
const LEAST_BYTES = Math.ceil(CACHE_BYTES / SEEN_PIECES) // what a smaller one is counted as
const SMALLEST = 2_048 // a smaller page fits in a packet anyway, and a smaller piece of one is sent as it is
const MOST_PIECES = 6 // a page in feed order has one or two pieces, and one on each side; pages with more are rarely repeated
const MOST_AT_ONCE = 2
const STORED_BYTES = 0xffff
const HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff])
const END = Buffer.from([1, 0, 0, 0xff, 0xff]) // the last block, empty
const SYNC = { level: 6, finishFlush: constants.Z_SYNC_FLUSH } // ends on a byte, with more blocks to follow

/** A name or an IPv4 address, or nothing, with or without a port; the same with an IPv6 address (RFC 3986, section 3.2). */
const NAMED = /^(?:[\w.~!$&'()*+,;=-]|%[\da-f]{2})*(?::\d*)?$/i
const BRACKETED = /^\[([\da-f:.]+)\](?::\d*)?$/i

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
export function exchangeOf(reply: FastifyReply): Exchange {
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
  // A server that closes finishes this answer, and must not wait for another request on the same connection.
  if (!isListening()) response.shouldKeepAlive = false
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

/** Blocks that hold the bytes as they are (RFC 1951, 3.2.4). */
function stored(bytes: Uint8Array): Uint8Array[] {
  const blocks: Uint8Array[] = []
  for (let at = 0; at < bytes.byteLength; at += STORED_BYTES) {
    const part = bytes.subarray(at, at + STORED_BYTES)
    const head = Buffer.allocUnsafe(5)
    head[0] = 0
    head.writeUInt16LE(part.byteLength, 1)
    head.writeUInt16LE(part.byteLength ^ 0xffff, 3)
    blocks.push(head, part)
  }
  return blocks
}

function trailer(crc: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeUInt32LE(crc, 0)
  bytes.writeUInt32LE(length >>> 0, 4)
  return bytes
}

const isLarge = ({ byteLength }: Uint8Array) => byteLength >= SMALLEST

/** Whether the client takes gzip. */
export function takesGzip(accept: string | string[] | undefined): boolean {
  return typeof accept === 'string' && /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/.test(accept)
}

export function createGzipPages() {
  const compressed = new LRUCache<string, Buffer>({
    maxSize: CACHE_BYTES,
    sizeCalculation: ({ byteLength }) => Math.max(byteLength, LEAST_BYTES),
  })
  const seen = createRecent<true>(SEEN_PIECES)
  const underWay = new Set<string>()
  // Rows outside of lent memory are never rewritten in place: their address identifies their content while the memory exists.
  const memories = new WeakMap<ArrayBufferLike, number>()
  let memoryCount = 0

  function nameOf({ buffer, byteOffset, byteLength }: Uint8Array): string {
    let memory = memories.get(buffer)
    if (memory === undefined) {
      memory = ++memoryCount
      memories.set(buffer, memory)
    }
    return `${memory} ${byteOffset} ${byteLength}`
  }

  /** In another thread, and only for pages that are asked for twice: a walk asks for each page once. */
  function prepare(name: string, piece: Uint8Array): void {
    if (!seen.has(name)) {
      seen.set(name, true)
      return
    }
    if (underWay.has(name) || underWay.size >= MOST_AT_ONCE) return
    underWay.add(name)
    deflateRaw(piece, SYNC, (error, bytes) => {
      underWay.delete(name)
      // A page that cannot be compressed is sent uncompressed.
      if (!error) compressed.set(name, bytes)
    })
  }

  /** The chunks as one gzip stream, or undefined while a piece of them is not prepared. */
  function pack(chunks: readonly Chunk[]): Chunk[] | undefined {
    const pieces = chunks.filter((chunk): chunk is Uint8Array => typeof chunk !== 'string')
    if (pieces.length > MOST_PIECES || !pieces.some(isLarge)) return undefined
    if (pieces.some(isLent)) return undefined // other bytes will stand at this address
    const packed: Chunk[] = [HEADER]
    let crc = 0
    let length = 0
    let isWhole = true
    for (const chunk of chunks) {
      const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
      crc = crc32(bytes, crc)
      length += bytes.byteLength
      if (typeof chunk === 'string' || !isLarge(chunk)) {
        packed.push(...stored(bytes))
        continue
      }
      const name = nameOf(chunk)
      const ready = compressed.get(name)
      if (ready) packed.push(ready)
      else {
        prepare(name, chunk)
        isWhole = false
      }
    }
    return isWhole ? [...packed, END, trailer(crc, length)] : undefined
  }

  return { pack }
}

export type GzipPages = ReturnType<typeof createGzipPages>

/**
 * Whether the Host of a request is what it may be (RFC 9112, section 3.2). Two of them have arrived as one list, which is none; a
 * request of HTTP/1.1 without one does not come here.
 */
export function isHostSound({ headers: { host = '' } }: IncomingMessage): boolean {
  return NAMED.test(host) || isIPv6(BRACKETED.exec(host)?.[1] ?? '')
}

/** The length that a plain request says its body has; undefined for a request that is not plain. */
function plainLength(request: IncomingMessage): number | undefined {
  const { method, headers } = request
  if (method !== 'POST' || !PLAIN_TYPES.has(headers['content-type'])) return undefined
  if (!isHostSound(request)) return undefined
  if (headers['content-encoding'] !== undefined || headers.expect !== undefined) return undefined
  const length = Number(headers['content-length'])
  return length > 0 && length <= MOST_BYTES ? length : undefined
}

/**
 * Calls back with the whole body. A client that closes the connection before its end gets no answer. The parser has put
 * what came together with the head into the stream before the next tick: usually that is all of it, and taking it out
 * then costs a microsecond less than listening for it.
 */
function readWhole(raw: IncomingMessage, length: number, done: (body: Buffer) => void): void {
  process.nextTick(() => {
    const first = raw.read() as Buffer | null
    if (first?.byteLength === length) return done(first)
    const body = Buffer.allocUnsafe(length)
    let filled = first?.copy(body) ?? 0
    raw.on('data', (chunk: Buffer) => {
      filled += chunk.copy(body, filled)
    })
    raw.on('end', () => done(body))
  })
}

export function createFastLane({ idOf, onBug, timeouts, ...options }: FastLaneOptions) {
  const lanes = new Map<string | undefined, Take>()
  let server: Server | undefined
  let { isOpen } = options
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

  return {
    /** Runs before the listeners of an app's server; requests that it does not take go to them. */
    before(app: FastifyInstance): void {
      const own = app.server
      const listeners = own.listeners('request') as RequestListener[]
      server = own
      own.removeAllListeners('request')
      own.on('request', (raw: IncomingMessage, response: ServerResponse) => {
        const take = isOpen ? lanes.get(raw.url) : undefined
        const length = take && plainLength(raw)
        if (take && length !== undefined)
          readWhole(raw, length, (body) => safely(take, { raw, body, response, id: idOf(raw), isListening }))
        else for (const listener of listeners) listener.call(own, raw, response)
      })
      Object.assign(own, timeouts)
    },
    /** The functions that answer POST requests, by path, whichever way a request comes. */
    post(app: FastifyInstance, path: string, take: Take): void {
      lanes.set(path, take)
      app.post(path, (_request, reply) => safely(take, exchangeOf(reply)))
    },
    /** From now on every request goes to Fastify, which refuses new ones while it closes. */
    close(): void {
      isOpen = false
    },
  }
}

export type FastLane = ReturnType<typeof createFastLane>
