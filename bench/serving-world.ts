/**
 * The servers that `serving.ts` compares, in a process of their own: a bare Fastify route, ours without and with
 * metrics and limits, and the official MCP server made for each request. It answers `cpu` with its CPU time so far.
 */
import { hash } from 'node:crypto'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import Fastify, { type FastifyInstance } from 'fastify'
import { pino } from 'pino'
import { createFeed } from '../src/feed/feed.js'
import { addA2a } from '../src/server/a2a/a2a.js'
import { createA2aCold } from '../src/server/a2a/a2a-cold.js'
import { createA2aTasks } from '../src/server/a2a/a2a-tasks.js'
import { agentCard } from '../src/server/a2a/agent-card.js'
import { createFastLane } from '../src/server/answer/fast-lane.js'
import { createGzipPages } from '../src/server/answer/gzip-pages.js'
import { createRequestIds } from '../src/server/answer/ids.js'
import { createBodyReader } from '../src/server/answer/json-rpc.js'
import { createServer, type ServerOptions } from '../src/server/app.js'
import { type AdmissionOptions, createAdmission } from '../src/server/door/admission.js'
import { createDispatcher } from '../src/server/door/dispatcher.js'
import { createDoor } from '../src/server/door/door.js'
import { createAddressOf } from '../src/server/door/origin.js'
import { createOverload } from '../src/server/door/overload.js'
import { createRateLimiter } from '../src/server/door/rate-limit.js'
import { addMcp } from '../src/server/mcp/mcp.js'
import { createMcpCold } from '../src/server/mcp/mcp-cold.js'
import { buildSnapshot } from '../src/snapshot/builder.js'
import { getSignals } from '../src/tasks/get-signals.js'
import { createSlabWriter } from '../src/upstreams/rows/slab.js'
import type { Slice } from '../src/upstreams/rows/slice.js'
import { onlyLookups } from '../test/support/only-lookups.js'

/** Of the callers: one without grants, one who may see keys, and whoever sends none. */
export const TOKENS = { bench: 'bench', granted: 'granted', nobody: '' } as const
const SIGNALS = 20_000
const ROW_BYTES = 1_180 // as in docs/decisions.md#serving-from-bytes

function row(n: number) {
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
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: (n % 50) / 10, currency: 'USD' }],
  }
  // Ours adds identity and provenance of about 500 bytes; the rest is description.
  const words = 'people who were seen to want this, by a panel of many homes and devices; '
  return {
    ...shell,
    description: words.repeat(20).slice(0, Math.max(0, ROW_BYTES - 500 - JSON.stringify(shell).length)),
  }
}

function slice(): Slice {
  const writer = createSlabWriter()
  const digests = new BigUint64Array(SIGNALS)
  for (let n = 0; n < SIGNALS; n++) {
    const bytes = Buffer.from(JSON.stringify(row(n)))
    writer.append(bytes)
    digests[n] = hash('sha256', bytes, 'buffer').readBigUInt64LE(0)
  }
  const shared = { upstream: 'bench', agentUrl: 'https://bench.example/mcp', scope: 'public' }
  return { ...shared, mode: 'wholesale', rows: writer.finish(), digests, dropped: {}, walkedAt: 0 }
}

function options(rateLimit: AdmissionOptions['rateLimit']): ServerOptions {
  const feed = createFeed({ cursorSecret: 'bench', retain: { ms: 60_000, bytes: 2 ** 30 } })
  const judge = () => ({
    stamp: '',
    policy: 'strict' as const,
    decide: () => ({ outcome: 'authorized' as const, entries: [0] }),
    definition: () => undefined,
  })
  feed.publish(buildSnapshot({ slices: [slice()], judge }), Date.now())
  const keyOf = (id: 'bench' | 'granted') => ({
    id,
    tokenSha256: hash('sha256', TOKENS[id], 'hex'),
    role: 'buyer' as const,
  })
  return {
    publicUrl: 'http://127.0.0.1',
    version: '0',
    feed,
    upstreams: { statuses: () => [], statusesOf: () => [], silentRegistries: () => [] },
    discovery: onlyLookups(feed),
    facts: () => ({ providerDomains: [], servesOwned: false, accountOverlays: false }),
    admission: createAdmission({
      callers: {
        anonymous: 'metadata',
        keys: [
          keyOf('bench'),
          { ...keyOf('granted'), destinations: [{ type: 'platform', platform: 'dv360' }] },
        ],
      },
      ...(rateLimit && { rateLimit }),
    }),
    log: pino({ level: 'silent' }),
  }
}

/** Ours without metrics and limits: the same parts, composed by hand. */
function lean(given: ServerOptions): FastifyInstance {
  const lane = createFastLane({
    idOf: createRequestIds(),
    isOpen: true,
    timeouts: { requestTimeout: 0, timeout: 0, keepAliveTimeout: 72_000 },
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
    ...{ tasks, limiter, now: Date.now, observe: () => {}, onBug: console.error },
    contextIdOf: () => 'ctx_bench',
  })
  const card = agentCard({ publicUrl: given.publicUrl, version: '0', tasks })
  const kept = createA2aTasks(Date.now)
  const shared = {
    lane,
    readBody: createBodyReader(),
    door,
    dispatcher,
    limiter,
    overload,
    gzip: createGzipPages(),
    now: Date.now,
  }
  addMcp(app, { ...shared, cold: createMcpCold({ tasks, version: '0' }) })
  const cold = createA2aCold({ card, tasks: kept })
  addA2a(app, { ...shared, cold, tasks: kept, card })
  return app
}

/** Sends whatever bytes it was given last: `PUT /bytes`, then `POST /bare`. */
function bare(): FastifyInstance {
  const app = Fastify({ logger: false, bodyLimit: 8 * 1024 * 1024 })
  let bytes = Buffer.alloc(0)
  app.addContentTypeParser('application/octet-stream', { parseAs: 'buffer' }, (_request, body, done) =>
    done(null, body),
  )
  app.put('/bytes', (request, reply) => {
    bytes = request.body as typeof bytes
    return reply.send({})
  })
  app.post('/bare', (_request, reply) => reply.type('application/json').send(bytes))
  return app
}

/** The official server as its examples make it: one for each request, text and structured content. */
function official(unchanged: unknown, page: unknown): FastifyInstance {
  const app = Fastify({ logger: false })
  app.post('/mcp', async (request, reply) => {
    const server = new McpServer({ name: 'official', version: '0' })
    const { arguments: given } = (request.body as { params: { arguments: Record<string, unknown> } }).params
    const answer = (given.if_wholesale_feed_version ? unchanged : page) as Record<string, unknown>
    server.registerTool('get_signals', { description: 'x' }, () => ({
      content: [{ type: 'text', text: JSON.stringify(answer) }],
      structuredContent: answer,
    }))
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: undefined,
      enableJsonResponse: true,
    })
    await server.connect(transport as never)
    reply.hijack()
    reply.raw.on('close', () => void server.close())
    await transport.handleRequest(request.raw, reply.raw, request.body)
  })
  return app
}

async function main() {
  const ours = options(undefined)
  const { feed } = ours
  const reader = { caller: 'bench', visibility: 'full' as const, grants: [] }
  const page = feed.wholesale({ maxResults: 50 }, reader, Date.now())
  if (page.kind !== 'page') throw new Error('the feed has no page')
  const rows = Buffer.concat(page.rows).toString()
  const unchanged = { status: 'completed', unchanged: true, wholesale_feed_version: page.feedVersion }
  const full = { status: 'completed', signals: JSON.parse(`[${rows}]`) as unknown }
  const apps = {
    bare: bare(),
    lean: lean(ours),
    full: createServer({ ...options({ perSecond: 1e9, burst: 1e9 }), feed }),
    official: official(unchanged, full),
  }
  const urls: Record<string, string> = {}
  for (const [name, app] of Object.entries(apps))
    urls[name] = await app.listen({ host: '127.0.0.1', port: 0 })
  process.on('message', () => process.send?.({ cpu: process.cpuUsage() }))
  process.send?.({ urls, version: page.feedVersion, cursor: page.cursor })
}

if (process.send) await main()
