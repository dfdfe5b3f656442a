/**
 * How a server closes, whatever the reason (docs/operations.md): whoever had connected is answered. A turn of the event loop accepts
 * one connection, so behind a busy thread many wait in the system's queue, and closing the listener would cut them off. So nothing
 * new begins until nobody waits there; what was asked meanwhile begins when the listener is closed, and whoever has not come to the
 * end of its request has as long as ever.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { Server as Listener, type Socket } from 'node:net'
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Bodies } from './answer/bodies.js'
import { closeAfterNewest, endUnlessAsked, endWhen, followConnections } from './answer/connection.js'

const QUIET_TURNS = 3 // after the last that was accepted: it is read in the next one
const ACCEPTING_MS = 5_000
const QUEUE = 512 // connections that the system keeps for a listener of Node
const QUEUE_MS = 20_000 // for all of them where the processors are wanted by many
const KEEP_ALIVE_MS = 200 // for who was promised that the connection stays open, and asks once more, perhaps at this moment
const AHEAD_MS = 35_000 // for who sent many requests without waiting for answers, and as long as who is slow to ask has
const READ_MS = 170_000 // for answers to be made and read
const LOOK_MS = 500 // how often that time is looked at
const SILENT_MS = 2_000 // who connects asks at once, as far as it comes to it

/** Keeps the requests that come from all but `follow`; gives what begins them, and those that come later as soon as they come. */
function holdRequests({ server }: FastifyInstance, follow: RequestListener): () => void {
  const listeners = (server.listeners('request') as RequestListener[]).filter((each) => each !== follow)
  const held: [IncomingMessage, ServerResponse][] = []
  const hold: RequestListener = (request, response) => void held.push([request, response])
  for (const listener of listeners) server.off('request', listener)
  server.on('request', hold)
  return () => {
    server.off('request', hold)
    for (const listener of listeners) server.on('request', listener)
    for (const [request, response] of held) {
      for (const listener of listeners) listener.call(server, request, response)
    }
  }
}

/**
 * Resolves when nobody waits to be accepted. New ones keep it waiting for `ACCEPTING_MS` at most, and those before them, the first
 * `QUEUE` that are accepted, for `QUEUE_MS`.
 */
async function allAccepted({ server }: FastifyInstance, now: () => number): Promise<void> {
  const begin = now()
  let accepted = 0
  let quiet = 0
  const onConnection = () => {
    accepted += 1
    quiet = 0
  }
  const isOver = () => now() - begin >= (accepted < QUEUE ? QUEUE_MS : ACCEPTING_MS)
  server.on('connection', onConnection)
  for (; quiet < QUIET_TURNS && !isOver(); quiet += 1) await nextTurn()
  server.off('connection', onConnection)
}

/** Ends the connections of those who were answered and do not ask once more; what they sent by then is read first. */
async function endKept(open: ReadonlyMap<Socket, number>): Promise<void> {
  await pause(KEEP_ALIVE_MS, undefined, { ref: false })
  for (let turn = 0; turn < QUIET_TURNS; turn += 1) await nextTurn()
  for (const socket of open.keys()) endUnlessAsked(socket)
}

/**
 * Before an app closes. Add it before the routes, so that what they do when the app closes meets every request; `ended` resolves
 * when the last connection has.
 */
export function createClosing(app: FastifyInstance, bodies: Bodies, now: () => number) {
  const follow = followConnections(app.server, bodies)
  const open = new Map<Socket, number>() // since when
  let ended: Promise<unknown> | undefined
  app.server.on('connection', (socket) => {
    open.set(socket, performance.now())
    socket.once('close', () => open.delete(socket))
  })

  /** Node counts a connection without a first byte as busy; load balancers and browsers open such connections in advance. */
  function dropSilent(): void {
    const silent = [...open].filter(([socket]) => socket.bytesRead === 0)
    const before = performance.now() - SILENT_MS
    for (const [socket, since] of silent) {
      if (since <= before) socket.destroy()
      else setTimeout(() => socket.bytesRead === 0 && socket.destroy(), since - before).unref()
    }
  }

  /** Cuts off who reads its answer so slowly that bytes of it wait when `isTime`. */
  function dropUnread(isTime: () => boolean): void {
    const looking = setInterval(() => {
      if (isTime()) for (const socket of open.keys()) if (socket.writableLength > 0) socket.destroy()
    }, LOOK_MS).unref()
    app.server.once('close', () => clearInterval(looking))
  }

  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (!app.server.listening) closeAfterNewest(reply.raw)
    done()
  })
  app.addHook('preClose', async () => {
    const { server } = app
    if (!server.listening) return
    const begin = holdRequests(app, follow)
    await allAccepted(app, now)
    ended = new Promise((resolve) => server.once('close', resolve))
    // Only the listener: closing the server of HTTP would end the watch over callers that are slow to ask.
    Listener.prototype.close.call(server)
    server.keepAliveTimeout = KEEP_ALIVE_MS
    const closedAt = now()
    for (const socket of open.keys()) endWhen(socket, () => now() - closedAt >= AHEAD_MS)
    dropUnread(() => now() - closedAt >= READ_MS)
    dropSilent()
    begin()
    void endKept(open)
  })
  return { ended: async () => void (await ended) }
}
