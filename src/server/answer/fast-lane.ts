/**
 * The fast way for requests that arrive thousands of times a second: a plain POST to a transport is read from the
 * socket and answered here, without Fastify's routing, hooks, request and reply objects. A request that is not plain
 * (another media type, an encoding, a body of unknown or great length, a server that closes) goes to Fastify's route
 * for the same path, which ends in the same function and handles every fault.
 */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { type Exchange, exchangeOf, sendChunks } from './chunks.js'
import { INVALID_MESSAGE, rpcError } from './json-rpc.js'

const MOST_BYTES = 64 * 1024 // the usual request has a few hundred
const PLAIN_TYPES: ReadonlySet<string | undefined> = new Set([
  'application/json',
  'application/json; charset=utf-8',
  'application/json;charset=utf-8',
])

type Take = (exchange: Exchange) => void | Promise<void>

type FastLaneOptions = {
  idOf(request: IncomingMessage): string
  /** False: every request goes to Fastify. */
  isOpen: boolean
  /** Receives errors on our side; the caller has been answered. */
  onBug(error: unknown, requestId: string): void
  /** As `node:http` has them, ms. */
  timeouts: Pick<Server, 'keepAliveTimeout' | 'requestTimeout' | 'timeout'>
}

export type FastLane = ReturnType<typeof createFastLane>

/** The length that a plain request says its body has; undefined for a request that is not plain. */
function plainLength({ method, headers }: IncomingMessage): number | undefined {
  if (method !== 'POST' || !PLAIN_TYPES.has(headers['content-type'])) return undefined
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
