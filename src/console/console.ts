/**
 * The console: one page for whoever runs Tributary or buys from it, and the JSON that the page reads (docs/console.md): what
 * operators look at and do, and a live stream that tells open pages to ask again. Everything it shows is what the caller
 * whose key is given may see. The page itself is plain files that a browser loads as they are. No build makes them; what comes
 * from npm packages lies in the program. They hold nothing that is not in the published package, so everybody may have them.
 */
import { readdir, readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../adcp/caller.js'
import { isRecord, tryParseJson } from '../adcp/json.js'
import type { Rates } from '../feed/query.js'
import type { Clock } from '../net/clock.js'
import type { Searchable } from '../search/search-host.js'
import { etagOf, sendUnlessHeld } from '../server/answer/conditional.js'
import { whenOver } from '../server/answer/connection.js'
import { takesGzip } from '../server/answer/gzip.js'
import type { Admission } from '../server/door/admission.js'
import type { Door } from '../server/door/door.js'
import { busy, refusePlainly } from '../server/door/turned-away.js'
import type { AuditEntry } from '../store/records/activity.js'
import { addSignIn, createEntrance, createSessions, type Entrance, type EntranceOptions } from './entrance.js'
import { createFind } from './feed-question.js'
import { addFeedRoutes, addSignalRoute, type SignalRouteOptions } from './feed-routes.js'
import { addOpenApi } from './openapi.js'

const MOST_ENTRIES = 500 // entries of the log
const LOOK_EVERY_MS = 1_000
const BEAT_EVERY = 10 // looks: a page that receives nothing for longer knows that the connection is lost
const MOST_PAGES = 500 // open connections
const MOST_A_CALLER = 20
const MOST_UNREAD = 64 * 1024 // bytes that wait for one page; with more, the page is taken for gone

const STREAM = 'text/event-stream; charset=utf-8'
const FOLDER = fileURLToPath(new URL('../../../console/', import.meta.url))
/** What the page uses of npm packages; `bundle.js` puts it there. */
const LIBRARIES = fileURLToPath(new URL('../../program/libraries/', import.meta.url))
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** Nothing from another host, no code or style inside the document, no frame around it. */
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
}

type Asset = { type: string; etag: string; body: Buffer; packed(): Buffer }

function asset(name: string, body: Buffer): Asset {
  let packed: Buffer | undefined // by the first who asks for it, and no start waits for that
  return {
    ...{ type: TYPES[extname(name)] ?? 'application/octet-stream', etag: etagOf(body), body },
    packed() {
      packed ??= gzipSync(body)
      return packed
    },
  }
}

async function filesOf(folder: string, below = ''): Promise<[string, Asset][]> {
  const names = (await readdir(folder, { withFileTypes: true })).filter((entry) => entry.isFile())
  return Promise.all(
    names.map(async ({ name }): Promise<[string, Asset]> => {
      return [`${below}${name}`, asset(name, await readFile(join(folder, name)))]
    }),
  )
}

/** Every file of the page by its path below /console/. Throws when one of them is missing. */
export async function readAssets(): Promise<ReadonlyMap<string, Asset>> {
  return new Map([...(await filesOf(FOLDER)), ...(await filesOf(LIBRARIES, 'lib/'))])
}

function sendAsset(request: FastifyRequest, reply: FastifyReply, { type, etag, body, packed }: Asset) {
  reply.headers({
    ...HEADERS,
    'content-type': type,
    'cache-control': 'no-cache',
    vary: 'accept-encoding',
  })
  if (!takesGzip(request.headers['accept-encoding'])) return sendUnlessHeld(request, reply, etag, body)
  return sendUnlessHeld(request, reply.header('content-encoding', 'gzip'), etag, packed())
}

/** Serves the files of the page below `/console/`, and the page itself at `/`. */
function addAssets(app: FastifyInstance, assets: ReadonlyMap<string, Asset>): void {
  const page = assets.get('index.html') as Asset
  app.get('/', (request, reply) => sendAsset(request, reply, page))
  for (const [path, file] of assets) {
    app.get(`/console/${path}`, (request, reply) => sendAsset(request, reply, file))
  }
}

type ActionRoutesOptions = {
  entrance: Entrance
  /** Names of all actions. */
  actions: readonly string[]
  /**
   * Does `action` to `subject` for the caller `who`. `until: 'reload'`: it holds until the configuration is read again.
   * `unknown`: nothing is called `subject`.
   */
  act(
    action: string,
    subject: string,
    who: string,
  ): Promise<{ kind: 'done'; until?: string } | { kind: 'unknown' } | { kind: 'refused'; reason: string }>
  audit: { last(limit: number): Promise<(AuditEntry & { at: number })[]> }
}

/** `POST /console/api/actions` and `GET /console/api/audit`, for operators (docs/console.md). */
export function addActionRoutes(
  app: FastifyInstance,
  { entrance, actions, act, audit }: ActionRoutesOptions,
): void {
  app.post(
    '/console/api/actions',
    entrance.forOperators(async ({ caller }, { body }, reply) => {
      const given = body instanceof Uint8Array ? tryParseJson(body) : undefined
      const { action, subject } = isRecord(given) ? given : {}
      const bad = (parameter: string, expected: string) =>
        reply.code(400).send({ error: `Invalid ${parameter}: expected ${expected}`, parameter })
      if (typeof action !== 'string' || !actions.includes(action))
        return bad('action', `one of ${actions.join(', ')}`)
      if (typeof subject !== 'string' || subject === '') return bad('subject', 'what it is to be done to')
      const acted = await act(action, subject, caller.id)
      if (acted.kind === 'unknown') {
        return reply.code(404).send({ error: 'Invalid subject: nothing has this name', parameter: 'subject' })
      }
      if (acted.kind === 'refused') return reply.code(409).send({ error: acted.reason })
      return { action, subject, ...(acted.until !== undefined && { until: acted.until }) }
    }),
  )

  app.get(
    '/console/api/audit',
    entrance.forOperators(async () => ({
      entries: (await audit.last(MOST_ENTRIES)).map(({ at, ...entry }) => ({
        at: new Date(at).toISOString(),
        ...entry,
      })),
    })),
  )
}

/** One text for each part that a page may show; equal texts mean that nothing in it changed. Undefined: nothing yet. */
type Pulse = { feed?: string | undefined; operations?: string; changes?: number }

type LiveOptions = {
  entrance: Entrance
  clock: Clock
  /** Changes when the feed changes. Every caller with a key is told of it. */
  feed(): string | undefined
  /** Changes when anything else changes that operators are shown. Operators alone are told of it. */
  operations(): string
  /** Changes when it is kept what happened to signals, which is after the feed has changed. Operators alone are told of it. */
  changes(): number
}

type Listener = {
  request: FastifyRequest
  caller: Caller
  write(text: string): void
  end(): void
  /** What it was sent last. */
  told: string
}

/**
 * `GET /console/api/live`: the events `changed` and `beat`, as server-sent events. They hold no data of the feed, only names
 * of states, so that they tell nobody more than the page may ask for. Answers 503 when too many connections are open.
 */
export function addLive(app: FastifyInstance, options: LiveOptions): void {
  const { entrance, clock, feed, operations, changes } = options
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
      const ofOperators = role === 'operator' && { operations: ofOperations(), changes: changes() }
      const pulse: Pulse = { feed: feed(), ...ofOperators }
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
      if (request.method === 'HEAD') return reply.type(STREAM).send() // it has no events, and so no end
      if (!app.server.listening) return refusePlainly(reply, busy('This server is about to end.'))
      const own = [...listeners].filter((one) => one.caller.id === caller.id)
      if (listeners.size >= MOST_PAGES || own.length >= MOST_A_CALLER) {
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
        'content-type': STREAM,
        'cache-control': 'no-store',
        'x-accel-buffering': 'no',
      })
      response.write('retry: 2000\n\n')
      listeners.add(listener)
      whenOver(response, () => listeners.delete(listener)) // a page may have left while its caller was looked up
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

type ConsoleOptions = Omit<SignalRouteOptions & ActionRoutesOptions, 'entrance'> & {
  version: string
  /** Shared by all replicas, and kept over restarts. */
  secret: Uint8Array
  /** The public snapshot; undefined before the first. */
  current(): { id: string } | undefined
  admission: Admission
  searchable(): Searchable | undefined
  rates(): Rates | undefined
  /** What operators look at: each is served under its name. A view that gives undefined is answered with 404. */
  views: Readonly<Record<string, (params: URLSearchParams) => unknown>>
  /** A text that changes when something that the views show changes. */
  pulse(): string
  /** Another number when `changesOf` may give more. */
  changesKept(): number
  /** Called once for each question about the feed, with its outcome. */
  onAsked: EntranceOptions['onAsked']
  clock: Clock
}

function addViews(app: FastifyInstance, entrance: Entrance, views: ConsoleOptions['views']): void {
  for (const [name, view] of Object.entries(views)) {
    app.get(
      `/console/api/${name}`,
      entrance.forOperators(async (_visitor, _request, reply, params) => {
        const shown = await view(params)
        return shown ?? reply.code(404).send({ error: 'There is nothing of what was asked' })
      }),
    )
  }
}

/**
 * The console of one server. `addTo` adds its routes; call it before the app listens. Rejects when a file of the page is
 * missing.
 */
export async function createConsole(options: ConsoleOptions) {
  const { version, secret, admission, clock } = options
  const assets = await readAssets()
  const { now } = clock
  const find = createFind(options)

  return {
    addTo(app: FastifyInstance, { door, publicUrl }: { door: Door; publicUrl: string }): void {
      const isSecure = publicUrl.startsWith('https:')
      const sessions = createSessions({ secret, callers: admission, isSecure, now })
      const entrance = createEntrance({ door, sessions, admission, onAsked: options.onAsked, now })
      addAssets(app, assets)
      addOpenApi(app, version, publicUrl)
      addSignIn(app, {
        entrance,
        sessions,
        identify: admission.identify,
        addressOf: door.addressOf,
        version,
        now,
      })
      addFeedRoutes(app, { ...options, entrance, find })
      addSignalRoute(app, { ...options, entrance })
      addActionRoutes(app, { ...options, entrance })
      addViews(app, entrance, options.views)
      addLive(app, {
        ...{ entrance, clock, operations: options.pulse, changes: options.changesKept },
        feed: () => options.current()?.id,
      })
    },
  }
}
