/**
 * The servers that `serving.ts` compares, in a process of their own: ours without and with metrics and limits, and the
 * others (serving-others.ts). It answers every message with its CPU time so far: after `change` it serves a feed in which one price
 * moved, after `collect` it holds no garbage.
 */
import { hash } from 'node:crypto'
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import Fastify, { type FastifyInstance } from 'fastify'
import { createFeed } from '../src/feed/feed.js'
import { overlayName } from '../src/feed/query.js'
import { createBodies } from '../src/server/answer/bodies.js'
import { createBodyReader } from '../src/server/answer/body-reader.js'
import { createFastLane, createRequestIds } from '../src/server/answer/exchange.js'
import { createGzipPages } from '../src/server/answer/gzip.js'
import { createApp, type ServerOptions } from '../src/server/app.js'
import { createRateLimiter } from '../src/server/door/admission.js'
import { createDispatcher } from '../src/server/door/dispatcher.js'
import { createAddressOf, createDoor, createRareTurns } from '../src/server/door/door.js'
import { createOverload } from '../src/server/door/overload.js'
import { addA2a, agentCard } from '../src/server/transports/a2a.js'
import { createA2aCold } from '../src/server/transports/a2a-cold.js'
import { createA2aTasks } from '../src/server/transports/a2a-tasks.js'
import { addMcp } from '../src/server/transports/mcp.js'
import { createMcpCold } from '../src/server/transports/mcp-cold.js'
import { buildSnapshot } from '../src/snapshot/builder.js'
import { getSignals } from '../src/tasks/get-signals.js'
import { createSlabWriter } from '../src/upstreams/rows/slab.js'
import type { Slice } from '../src/upstreams/rows/slice.js'
import { ACCOUNT, servingOptions } from './serving-options.js'
import { bare, gathering, least } from './serving-others.js'

const SIGNALS = 20_000
const ROW_BYTES = 1_180 // as in docs/decisions.md#serving-from-bytes

function row(n: number, cpm: number) {
  const shell = {
    signal_ref: { scope: 'data_provider', data_provider_domain: `p${n % 7}.example`, signal_id: `s${n}` },
    signal_agent_segment_id: `seg_${n}`,
    name: `Signal ${n}`,
    description: '',
    signal_type: 'marketplace',
    data_provider: `Provider ${n % 7}`,
    coverage_percentage: n % 100,
    deployments: [
      n % 3
        ? { type: 'platform', platform: 'the-trade-desk', is_live: false }
        : {
            ...{ type: 'platform', platform: 'dv360', is_live: true },
            activation_key: { type: 'segment_id', segment_id: `key_${n}` },
          },
    ],
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm, currency: 'USD' }],
  }
  // Ours adds identity and provenance of about 500 bytes; the rest is description.
  const words = 'people who were seen to want this, by a panel of many homes and devices; '
  return {
    ...shell,
    description: words.repeat(20).slice(0, Math.max(0, ROW_BYTES - 500 - JSON.stringify(shell).length)),
  }
}

/** The price of a listing in everybody's feed. */
const listPrice = (n: number) => (n % 50) / 10

function slice(price: (n: number) => number): Slice {
  const writer = createSlabWriter()
  const digests = new BigUint64Array(SIGNALS)
  for (let n = 0; n < SIGNALS; n++) {
    const bytes = Buffer.from(JSON.stringify(row(n, price(n))))
    writer.append(bytes)
    digests[n] = hash('sha256', bytes, 'buffer').readBigUInt64LE(0)
  }
  const shared = { upstream: 'bench', agentUrl: 'https://bench.example/mcp', scope: 'public' }
  return { ...shared, mode: 'wholesale', rows: writer.finish(), digests, dropped: {}, walkedAt: 0 }
}

const judge = () => ({
  stamp: '',
  policy: 'strict' as const,
  decide: () => ({ outcome: 'authorized' as const, entries: [0] }),
  definition: () => undefined,
})

/** A feed with an account in it; `change` moves one price of both. */
function createChangingFeed() {
  const feed = createFeed({ cursorSecret: 'bench', retain: { ms: 1_000, bytes: 2 ** 28 } })
  const accountPrice = (n: number) => (n % 100 === 0 ? 7 : listPrice(n))
  let changes = 0
  function change(): void {
    changes += 1
    const moved = (price: (n: number) => number) => slice((n) => (n === 7 ? 100 + changes : price(n)))
    const previous = feed.current()
    const open = buildSnapshot({ ...(previous && { previous }), slices: [moved(listPrice)], judge })
    const own = buildSnapshot({ previous: open, slices: [moved(accountPrice)], judge })
    const accounts = new Map([[overlayName('bench', ACCOUNT), { snapshot: own, gaps: [] }]])
    feed.publish(open, Date.now(), { accounts })
  }
  change()
  return { feed, change }
}

/** Ours without metrics and limits: the same parts, composed by hand. */
function lean(given: ServerOptions): FastifyInstance {
  const lane = createFastLane({
    idOf: createRequestIds(),
    isOpen: true,
    bodies: createBodies(createAddressOf()),
    refuse: ({ response }) => response.destroy(),
    timeouts: { headersTimeout: 60_000, requestTimeout: 0, timeout: 0, keepAliveTimeout: 72_000 },
    onBug: console.error,
  })
  const app = Fastify({ logger: false })
  lane.before(app)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) =>
    done(null, body),
  )
  const overload = createOverload()
  const door = createDoor({
    callers: given.admission,
    overload,
    addressOf: createAddressOf(),
    isMutating: () => false,
    publicUrl: given.publicUrl,
  })
  const limiter = createRateLimiter(undefined)
  const tasks = [getSignals(given)]
  const dispatcher = createDispatcher({
    ...{ tasks, previews: [], limiter, now: Date.now, observe: () => {}, onBug: console.error },
  })
  const card = agentCard({ publicUrl: given.publicUrl, version: '0', tasks })
  const kept = createA2aTasks(Date.now)
  const shared = {
    lane,
    readBody: createBodyReader(),
    door,
    dispatcher,
    rareTurns: createRareTurns(limiter, Date.now),
    overload,
    gzip: createGzipPages(),
    now: Date.now,
  }
  addMcp(app, { ...shared, cold: createMcpCold({ tasks, version: '0' }) })
  const cold = createA2aCold({ card, tasks: kept })
  addA2a(app, { ...shared, cold, tasks: kept, card })
  return app
}

/** What making a feed left behind is no part of a request. */
function collect(): void {
  const { gc } = globalThis as { gc?: () => void } // set by the flag --expose-gc
  gc?.()
}

async function listen(app: FastifyInstance | Server): Promise<string> {
  if ('ready' in app) return app.listen({ host: '127.0.0.1', port: 0 })
  await once(app.listen(0, '127.0.0.1'), 'listening')
  return `http://127.0.0.1:${(app.address() as AddressInfo).port}`
}

async function main() {
  const { feed, change } = createChangingFeed()
  const apps = {
    bare: bare(),
    least: least(),
    gathering: gathering(),
    lean: lean(servingOptions(feed, undefined)),
    full: createApp(servingOptions(feed, { perSecond: 1e9, burst: 1e9 })),
  }
  const urls: Record<string, string> = {}
  for (const [name, app] of Object.entries(apps)) urls[name] = await listen(app)
  process.on('message', (asked) => {
    if (asked === 'change') change()
    if (asked === 'collect') collect()
    process.send?.({ cpu: process.cpuUsage() })
  })
  process.send?.({ urls })
}

if (process.send) await main()
