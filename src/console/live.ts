/**
 * Tells open pages that something has changed, as server-sent events: they ask again for what they show. An event holds
 * no data of the feed, only names of states, so that it can tell nobody more than the page may ask for.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Clock } from '../net/clock.js'
import { busy, refusePlainly } from '../server/door/door.js'
import type { Entrance, Visitor } from './entrance.js'

const LOOK_EVERY_MS = 1_000
const BEAT_EVERY = 10 // looks: a page that hears nothing for longer has lost us
const MOST = 500
const MOST_A_CALLER = 20

/** Names of what a page may show: equal names, nothing to ask again. `undefined`: nothing yet. */
type Pulse = { feed?: string | undefined; operations?: string | undefined }

type LiveOptions = {
  entrance: Entrance
  clock: Clock
  /** Of the feed, for everybody with a key. */
  feed(): string | undefined
  /** Of everything else, for operators. */
  operations(): string
}

type Listener = {
  request: FastifyRequest
  visitor: Visitor
  write(text: string): void
  end(): void
  told: string
}

export function addLive(app: FastifyInstance, { entrance, clock, feed, operations }: LiveOptions): void {
  const listeners = new Set<Listener>()
  let looks = 0
  let stop: (() => void) | undefined

  function pulseOf({ visitor: { caller } }: Listener): Pulse {
    return { feed: feed(), ...(caller.role === 'operator' && { operations: operations() }) }
  }

  /** Somebody whose key is gone is told nothing more. */
  async function tell(listener: Listener): Promise<void> {
    const text = JSON.stringify(pulseOf(listener))
    if (text === listener.told && looks % BEAT_EVERY !== 0) return
    const still = await entrance.identify(listener.request)
    if (still.kind === 'turned_away' && still.status !== 503) listener.end()
    else if (text !== listener.told) listener.write(`event: changed\ndata: ${text}\n\n`)
    else listener.write('event: beat\ndata: {}\n\n')
    listener.told = text
  }

  function look(): void {
    looks += 1
    for (const listener of listeners) void tell(listener)
    stop = listeners.size > 0 ? clock.after(LOOK_EVERY_MS, look) : undefined
  }

  app.get(
    '/console/api/live',
    entrance.forCallers((visitor, request, reply) => {
      const own = [...listeners].filter((one) => one.visitor.caller.id === visitor.caller.id)
      if (listeners.size >= MOST || own.length >= MOST_A_CALLER) {
        return refusePlainly(reply, busy('Too many pages are open.'))
      }
      const response = reply.hijack().raw
      const listener: Listener = {
        ...{ request, visitor, told: '' },
        write: (text) => void response.write(text),
        end: () => void response.end(),
      }
      response.writeHead(200, {
        'content-type': 'text/event-stream; charset=utf-8',
        'cache-control': 'no-store',
        'x-accel-buffering': 'no',
      })
      response.write('retry: 2000\n\n')
      response.on('close', () => listeners.delete(listener))
      listeners.add(listener)
      void tell(listener)
      stop ??= clock.after(LOOK_EVERY_MS, look)
      return reply
    }),
  )

  app.addHook('preClose', async () => {
    stop?.()
    for (const listener of listeners) listener.end()
  })
}
