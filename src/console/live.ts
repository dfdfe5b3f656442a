/**
 * Tells open pages that something has changed, as server-sent events: they ask again for what they show. An event holds
 * no data of the feed, only names of states, so that it can tell nobody more than the page may ask for.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Caller } from '../adcp/caller.js'
import type { Clock } from '../net/clock.js'
import { busy, refusePlainly } from '../server/door/door.js'
import type { Entrance } from './entrance.js'

const LOOK_EVERY_MS = 1_000
const BEAT_EVERY = 10 // looks: a page that receives nothing for longer knows that the connection is lost
const MOST = 500 // open connections
const MOST_A_CALLER = 20
const MOST_UNREAD = 64 * 1024 // bytes that wait for one page; with more, the page is taken for gone

/** One text for each part that a page may show; equal texts mean that nothing in it changed. Undefined: nothing yet. */
type Pulse = { feed?: string | undefined; operations?: string | undefined }

type LiveOptions = {
  entrance: Entrance
  clock: Clock
  /** Changes when the feed changes. Every caller with a key is told of it. */
  feed(): string | undefined
  /** Changes when anything else changes that operators are shown. Operators alone are told of it. */
  operations(): string
}

type Listener = {
  request: FastifyRequest
  caller: Caller
  write(text: string): void
  end(): void
  /** What it was sent last. */
  told: string
}

/** `GET /console/api/live`: the events `changed` and `beat`. Answers 503 when too many connections are open. */
export function addLive(app: FastifyInstance, { entrance, clock, feed, operations }: LiveOptions): void {
  const listeners = new Set<Listener>()
  let looks = 0
  let stop: (() => void) | undefined

  /** What each caller is told at this look. `operations` is asked once, however many pages are open. */
  function createPulse(): (caller: Caller) => string {
    let seen: string | undefined
    const ofOperations = () => {
      seen ??= operations()
      return seen
    }
    return ({ role }) => {
      const pulse: Pulse = { feed: feed(), ...(role === 'operator' && { operations: ofOperations() }) }
      return JSON.stringify(pulse)
    }
  }

  /**
   * Sends one page its event. Ends the connection of a caller whose key is no longer valid. While keys cannot be checked
   * (503), sends beats only.
   */
  async function tell(listener: Listener, pulseOf: (caller: Caller) => string): Promise<void> {
    if (pulseOf(listener.caller) === listener.told && looks % BEAT_EVERY !== 0) return
    const still = await entrance.identify(listener.request)
    if (still.kind === 'turned_away' && still.status !== 503) return listener.end()
    if (still.kind === 'visitor') listener.caller = still.caller
    const text = still.kind === 'visitor' ? pulseOf(still.caller) : listener.told
    listener.write(text === listener.told ? 'event: beat\ndata: {}\n\n' : `event: changed\ndata: ${text}\n\n`)
    listener.told = text
  }

  function look(): void {
    looks += 1
    const pulseOf = createPulse()
    for (const listener of listeners) tell(listener, pulseOf).catch(listener.end) // the page asks again by itself
    stop = listeners.size > 0 ? clock.after(LOOK_EVERY_MS, look) : undefined
  }

  app.get(
    '/console/api/live',
    entrance.forCallers(({ caller }, request, reply) => {
      const own = [...listeners].filter((one) => one.caller.id === caller.id)
      if (listeners.size >= MOST || own.length >= MOST_A_CALLER) {
        return refusePlainly(reply, busy('Too many pages are open.'))
      }
      const response = reply.hijack().raw
      const listener: Listener = {
        ...{ request, caller, told: '' },
        write: (text) =>
          void (response.writableLength > MOST_UNREAD ? response.destroy() : response.write(text)),
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
      tell(listener, createPulse()).catch(listener.end)
      stop ??= clock.after(LOOK_EVERY_MS, look)
      return reply
    }),
  )

  app.addHook('preClose', async () => {
    stop?.()
    for (const listener of listeners) listener.end()
  })
}
