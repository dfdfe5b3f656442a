/**
 * Connections that never said a word. Closing waits for answers under way and drops kept-alive connections between
 * requests, but Node counts a connection without a first byte as neither, and would wait for it: load balancers and
 * browsers open such connections in advance.
 */
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

/** Ends them when the server begins to close. */
export function dropSilentConnections(app: FastifyInstance): void {
  const open = new Set<Socket>()
  app.server.on('connection', (socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  app.addHook('preClose', async () => {
    for (const socket of open) if (socket.bytesRead === 0) socket.destroy()
  })
}
