/**
 * The requests of one connection, in their order. A caller may send one after another without waiting for answers (RFC 9112, section
 * 9.3.2). A request that changes something must not take effect before those that were sent ahead of it, and an answer that nobody
 * reads yet must not be made. So each request begins when the answers before it have left. Until then Node gives its response no
 * socket, and does not tell the response when the connection ends.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Growth } from '../../process/fair-bytes.js'
import type { Bodies } from './bodies.js'

const MOST_REQUESTS = 2_000 // behind one that is not answered: some megabytes
const MOST_READ_BYTES = 4 * 1024 * 1024 // of them
const BYTES_A_REQUEST = 4 * 1024 // that each takes beside its own
const LINGER_MS = 5_000 // for a sender to read its last answer

type Connection = {
  /** The last request that was read. */
  newest: ServerResponse
  /** The responses that wait for the answers before them to leave, in this order, and how many bytes had been read when each came. */
  waiting: Map<ServerResponse, number>
  /** What they count among the bodies that are being read; absent while none waits. */
  counted: { bytes: number; growing: Growth } | undefined
}

const connections = new WeakMap<Socket, Connection>()

/** Counts what waits on a connection, and cuts one that sends too much. */
function countWaiting(socket: Socket, { waiting, counted }: Connection): void {
  if (!counted) return
  const [before = socket.bytesRead] = waiting.values()
  const ahead = socket.bytesRead - before
  const bytes = ahead + waiting.size * BYTES_A_REQUEST
  counted.growing.grew(bytes - counted.bytes)
  counted.bytes = bytes
  // Node stops reading while it keeps many bytes of answers, but not while requests wait.
  if (waiting.size > MOST_REQUESTS || ahead > MOST_READ_BYTES) socket.destroy()
}

function endWaiting(connection: Connection): void {
  connection.counted?.growing.end()
  connection.counted = undefined
}

function addWaiting(connection: Connection, response: ServerResponse, bodies: Bodies): void {
  const { req: request } = response
  const { socket } = request
  const { waiting } = connection
  connection.counted ??= { bytes: 0, growing: bodies.begin(request, () => socket.destroy()) }
  waiting.set(response, socket.bytesRead)
  response.once('socket', () => {
    waiting.delete(response)
    if (waiting.size === 0) endWaiting(connection)
    else countWaiting(socket, connection)
  })
  countWaiting(socket, connection)
}

/**
 * Closes a connection after its last answer. Where bytes that nobody reads still arrive, the system of their sender is told of a
 * broken connection, and may drop the answer (RFC 9112, section 9.6). So what comes is let go until the sender has closed, too.
 */
function closeGently(socket: Socket): void {
  const letGo = () => {
    socket.removeAllListeners('data').removeAllListeners('end') // no request begins any more
    socket.on('data', () => {}).once('end', () => socket.destroy())
  }
  socket.end()
  // Node reads on as it is resumed, and does not once its parser is taken off.
  if (socket.isPaused()) socket.once('resume', letGo).resume()
  else letGo()
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref()
  socket.once('close', () => clearTimeout(timer))
}

/** Sends the last bytes of a connection, which are the answer to what is no request. */
export function endWith(socket: Socket, bytes: string): void {
  socket.write(bytes)
  closeGently(socket)
}

/** The last request that was read on a connection; undefined where none was. */
export const newestOn = (socket: Socket): ServerResponse | undefined => connections.get(socket)?.newest

/**
 * What Node's parser of a connection says: for how many milliseconds a request has been coming that is not whole, or none has come.
 * Node 22 and later do not say it: there who has begun a request behind an answered one is not waited for.
 */
type Parsed = Socket & { parser?: { duration?(): number } | null }

/**
 * Ends a connection on which nothing is asked: no request is coming, and every answer has left. What Node calls an idle connection
 * may have answers that wait for their reader.
 */
export function endUnlessAsked(socket: Socket): void {
  const isComing = ((socket as Parsed).parser?.duration?.() ?? 0) > 0
  const newest = newestOn(socket)
  if (!isComing && (newest === undefined || newest.writableFinished)) closeGently(socket)
}

function connectionOf(socket: Socket, newest: ServerResponse): Connection {
  const known = connections.get(socket)
  if (known) return known
  socket.destroySoon = () => closeGently(socket) // what Node calls after an answer with connection: close
  const made: Connection = { newest, waiting: new Map(), counted: undefined }
  connections.set(socket, made)
  socket.once('close', () => {
    endWaiting(made)
    for (const response of made.waiting.keys()) {
      response.destroy()
      response.emit('close')
    }
  })
  return made
}

/**
 * Whether a request asks for another protocol (RFC 9110, section 7.8). It is answered in this one, and Node drops what it has read
 * behind it: nobody knows any more where the next request begins, so it is the last of its connection.
 */
const changesProtocol = ({ headers }: Pick<IncomingMessage, 'headers'>) =>
  headers.upgrade !== undefined && /\bupgrade\b/i.test(headers.connection ?? '')

/** Follows every request of the server, before any other listener sees it. Gives the listener, for requests that come another way. */
export function followConnections(server: Server, bodies: Bodies) {
  const look = (request: Pick<IncomingMessage, 'socket' | 'headers'>, response: ServerResponse) => {
    const { socket } = request
    if (changesProtocol(request)) response.shouldKeepAlive = false // what else comes is queued behind it, and never begins
    const connection = connectionOf(socket, response)
    connection.newest = response
    if (response.socket === null) addWaiting(connection, response, bodies)
  }
  server.prependListener('request', look)
  return look
}

/** Calls back once when the last byte of a response has left, or its connection is gone; now where that has been. */
export function whenOver(response: ServerResponse, then: () => void): void {
  if (response.destroyed) then()
  else response.once('close', then)
}

/** Calls `begin`, which answers a request whose body has been read, when the answers before it on its connection have left. */
export function inItsTurn(response: ServerResponse, begin: () => void): void {
  if (response.socket !== null) {
    begin()
    return
  }
  response.once('socket', () => setImmediate(begin))
  const { socket } = response.req
  const connection = connections.get(socket)
  if (connection) countWaiting(socket, connection) // its body has been read since it came
}

/** Whether an answer has to be the last of its connection, of a server that closes. */
const endings = new WeakMap<Socket, () => boolean>()

/** From when `isTime` on, the next answer of a connection is its last, and what waits behind it is not begun. */
export function endWhen(socket: Socket, isTime: () => boolean): void {
  endings.set(socket, isTime)
}

/** Before an answer of a server that closes is written: the connection closes after the last request that was read on it. */
export function closeAfterNewest(response: ServerResponse): void {
  const { socket } = response.req
  const isLast =
    newestOn(socket) === response || !response.shouldKeepAlive || endings.get(socket)?.() === true
  response.setHeader('connection', isLast ? 'close' : 'keep-alive') // Fastify would close it after any
}
