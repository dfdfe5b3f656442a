/**
 * The requests of one connection, in their order. A caller may send one after another without waiting for answers (RFC 9112, section
 * 9.3.2). A request that changes something must not take effect before those that were sent ahead of it, and an answer that nobody
 * reads yet must not be made. So each request begins when the answers before it have left. Until then Node gives its response no
 * socket, and does not tell the response when the connection ends.
 */
import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

const MOST_WAITING = 2_000 // requests behind one that is not answered: some megabytes
const MOST_AHEAD = 4 * 1024 * 1024 // bytes of them

type Connection = {
  /** The last request that was read. */
  newest: ServerResponse
  /** The responses that wait for the answers before them to leave. */
  waiting: Set<ServerResponse>
  /** How many bytes had been read when the first of them began to wait, or when the last one's turn came. */
  readBefore: number
}

const connections = new WeakMap<Socket, Connection>()

function addWaiting(socket: Socket, connection: Connection, response: ServerResponse): void {
  const { waiting } = connection
  if (waiting.size === 0) connection.readBefore = socket.bytesRead
  waiting.add(response)
  response.once('socket', () => {
    waiting.delete(response)
    connection.readBefore = socket.bytesRead
  })
  // Node stops reading while it keeps many bytes of answers, but not while requests wait.
  if (waiting.size > MOST_WAITING || socket.bytesRead - connection.readBefore > MOST_AHEAD) socket.destroy()
}

function connectionOf(socket: Socket, newest: ServerResponse): Connection {
  const known = connections.get(socket)
  if (known) return known
  const waiting = new Set<ServerResponse>()
  const made = { newest, waiting, readBefore: 0 }
  connections.set(socket, made)
  socket.once('close', () => {
    for (const response of waiting) {
      response.destroy()
      response.emit('close')
    }
  })
  return made
}

/** Follows every request of the server, before any other listener sees it. Gives the listener, for requests that come another way. */
export function followConnections(server: Server) {
  const look = ({ socket }: { socket: Socket }, response: ServerResponse) => {
    const connection = connectionOf(socket, response)
    connection.newest = response
    if (response.socket === null) addWaiting(socket, connection, response)
  }
  server.prependListener('request', look)
  return look
}

/** Calls `begin`, which answers a request whose body has been read, when the answers before it on its connection have left. */
export function inItsTurn(response: ServerResponse, begin: () => void): void {
  if (response.socket !== null) begin()
  else response.once('socket', () => setImmediate(begin))
}

/** Before an answer of a server that closes is written: the connection closes after the last request that was read on it. */
export function closeAfterNewest(response: ServerResponse): void {
  const isNewest = connections.get(response.req.socket)?.newest === response
  response.setHeader('connection', isNewest ? 'close' : 'keep-alive') // Fastify would close it after any
}
