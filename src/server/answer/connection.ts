/**
 * Requests that a caller sends one after another on a connection, without waiting for answers (RFC 9112, section 9.3.2). Node keeps an
 * answer until those before it have left. It tells the answers that it still keeps nothing when their connection ends.
 */
import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

const newest = new WeakMap<Socket, ServerResponse>()

/** Before an answer of a server that closes is written: the connection closes after the last request that was read on it. */
export function closeAfterNewest(response: ServerResponse): void {
  const isNewest = newest.get(response.req.socket) === response
  response.setHeader('connection', isNewest ? 'close' : 'keep-alive') // Fastify would close it after any
}

/** Looks at every request of the server before any other listener does. Gives what looks. */
export function followConnections(server: Server) {
  const look = ({ socket }: { socket: Socket }, response: ServerResponse) => {
    newest.set(socket, response)
    if (response.socket !== null) return
    const end = () => {
      if (response.socket !== null) return
      response.destroy()
      response.emit('close')
    }
    socket.setMaxListeners(0).once('close', end)
    response.once('close', () => socket.off('close', end))
  }
  server.prependListener('request', look)
  return look
}
