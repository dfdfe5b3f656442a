/**
 * The server as one Fastify instance: both transports, the tasks behind them, and the operations endpoints
 * (docs/operations.md). It listens to nothing yet; `close()` lets what is in flight finish.
 */
import type { IncomingMessage } from 'node:http'
import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply } from 'fastify'
import type { Logger } from 'pino'
import type { Preview, Release } from '../adcp/answer.js'
import { discoveryMode, isPlainPage } from '../adcp/signal-requests.js'
import type { SigningKey } from '../signing/key.js'
import { StorageUnavailable } from '../store/database/storage-work.js'
import { type AgentFacts, getAdcpCapabilities } from '../tasks/get-adcp-capabilities.js'
import { type GetSignalsOptions, getSignals } from '../tasks/get-signals.js'
import type { Task } from '../tasks/task.js'
import {
  BODY_BYTES,
  type Bodies,
  type BodyFault,
  createBodies,
  fault,
  sayWhenRead,
  TOO_LARGE,
} from './answer/bodies.js'
import { createBodyReader } from './answer/body-reader.js'
import { inItsTurn } from './answer/connection.js'
import { createFastLane, createRequestIds } from './answer/exchange.js'
import { createGzipPages } from './answer/gzip.js'
import { INVALID_MESSAGE, rpcError } from './answer/json-rpc.js'
import { isForServer, isHostSound, isOurVersion } from './answer/target.js'
import { answerUnreadable, refuseTunnels } from './answer/unreadable.js'
import { createClosing } from './closing.js'
import type { Admission } from './door/admission.js'
import { createDispatcher } from './door/dispatcher.js'
import { createAddressOf, createDoor, createRareTurns, type Door } from './door/door.js'
import { createOverload } from './door/overload.js'
import { busy, refusePlainly, turnedAway } from './door/turned-away.js'
import { addRegistryListing, type ListingRouteOptions } from './listing/route.js'
import { addOperations, createObserving, type RunningState, reasonOfStatus } from './monitoring.js'
import {
  addExplain,
  addFeedEvents,
  addIdentity,
  addRefresh,
  type ExplainOptions,
  type FeedEventsOptions,
  type RefreshOptions,
} from './routes.js'
import { answerStrays, NOTHING } from './strays.js'
import { addA2a, agentCard } from './transports/a2a.js'
import { createA2aTasks, type SharedTasks } from './transports/a2a-tasks.js'
import { addMcp } from './transports/mcp.js'

const BAD_PATH = 'The path of this request is not a path: a % stands before two hexadecimal digits'
const LAST = { connection: 'close' }
const REQUEST_MS = 30_000 // for headers and body together: slower clients are cut off
const LOOK_MS = 5_000 // how often such clients are looked for
const IDLE_MS = 150_000 // longer than the longest answer takes to begin
const KEEP_ALIVE_MS = 65_000 // longer than common load balancers keep it, so that the balancer closes first

export type ServerOptions = GetSignalsOptions &
  RunningState & {
    /** The url by which callers know us (docs/configuration.md `listen.public_url`). */
    publicUrl: string
    /** Networks whose X-Forwarded-For is believed. */
    trustedProxies: readonly string[]
    /** Of the product, for humans and agent cards. */
    version: string
    admission: Admission
    /** Signs what we send; absent: nothing is. */
    signingKey?: SigningKey
    facts: () => AgentFacts
    /** Tasks beside get_signals and get_adcp_capabilities. */
    tasks: readonly Task[]
    /** Releases that are not final and are served all the same, over MCP. */
    previews: readonly Preview[]
    /** The A2A tasks of all processes on one storage; absent: this one is alone. */
    sharedTasks?: SharedTasks
    /** What tests may force (comply_test_controller). */
    testScenarios?: (release: Release) => readonly string[]
    /** How long an idempotency key replays. */
    replayTtlSeconds: number
    log: Logger
    /** Whether hooks of the app are to see every request, as traces do: then none takes the fast lane before them. */
    hooked?: boolean
    /** What a question waits for that needs more than the rows of a saved feed; undefined once it is there. */
    rest?: () => Promise<boolean> | undefined
    /** What GET /api/registry/agents lists. */
    registryListing?: ListingRouteOptions['list']
    /** What GET /explain says, to operators. */
    explain?: ExplainOptions['explain']
    /** What POST /events/... takes from upstreams. */
    feedEvents?: FeedEventsOptions['receive']
    /** What POST /refresh starts, for operators. */
    refresh?: RefreshOptions['refresh']
    /** More routes behind the same door: the console's. */
    routes?: (app: FastifyInstance, inside: { door: Door; publicUrl: string }) => void
    now: () => number
  }

/** JSON between systems is UTF-8 (RFC 8259, section 8.1); what declares anything else is not read as if it were. */
function isUtf8(contentType: string): boolean {
  const [, charset] = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(contentType) ?? []
  return charset === undefined || /^(utf-?8|us-ascii)$/i.test(charset)
}

const NO_STORAGE = busy('The storage cannot serve just now')
const BUG = fault(500, 'Something went wrong on our side')

/** What is not taken is told with what is (RFC 9110, section 15.5.16). */
const BAD_TYPE = fault(415, 'Send the body as content-type: application/json', { accept: 'application/json' })
const ENCODED = fault(415, 'A request body must not be encoded', { 'accept-encoding': 'identity' })

/** Of a media type Fastify says only that it is not supported. */
const faultOf = (error: FastifyError & { headers?: Record<string, string> }) =>
  error.code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE' ? BAD_TYPE : error

/** Faults of a path, which Fastify finds before any hook runs. */
function refusePath({ code }: FastifyError, reply: FastifyReply): void {
  if (code === 'FST_ERR_BAD_URL') reply.code(400).send({ error: BAD_PATH })
  else reply.code(404).send({ error: NOTHING })
}

/** Faults that are found before a handler runs, as of a body or its media type, and those that one does not tell itself. */
function answerFaults(app: FastifyInstance, log: Logger): void {
  app.setErrorHandler((error: FastifyError, request, reply) => {
    if (error instanceof StorageUnavailable) return refusePlainly(reply, NO_STORAGE) // the log has it from there
    const status = error.statusCode && error.statusCode >= 400 ? error.statusCode : 500
    const isBug = status >= 500 && !OF_HEADS.has(status)
    if (isBug) log.error({ err: error, requestId: request.id }, 'a request failed')
    const { message, headers = {} } = isBug ? BUG : faultOf(error)
    return reply
      .code(status)
      .headers(headers)
      .header('content-type', 'application/json')
      .send(rpcError('null', INVALID_MESSAGE, message))
  })
}

const OF_HEADS: ReadonlySet<number> = new Set([501, 505])
const BAD_VERSION = fault(505, 'Only HTTP/1.1 and HTTP/1.0 are spoken here')
const BAD_TARGET = fault(400, 'Only OPTIONS can ask for *: send a path')
const BAD_HOST = fault(400, 'A request must have one Host: a name or an address, with or without a port')
const BAD_EXPECT = fault(417, 'Of what a request may expect, only 100-continue is met: leave Expect out')
const BAD_CODING = fault(501, 'Of what Transfer-Encoding may say, only chunked is understood: send it alone')
const OLD_CODING = fault(400, 'A request of HTTP/1.0 has no Transfer-Encoding: send Content-Length')

/** Node reads a body by its last coding alone, and in chunks for whoever cannot send them (RFC 9112, section 6.1). */
function faultOfCoding({ headers, httpVersion }: IncomingMessage): BodyFault | undefined {
  const coding = headers['transfer-encoding']
  if (coding === undefined) return undefined
  if (httpVersion === '1.0') return OLD_CODING
  return /^[\s,]*chunked$/i.test(coding) ? undefined : BAD_CODING
}

function faultOfHead(request: IncomingMessage): BodyFault | undefined {
  if (!isOurVersion(request)) return BAD_VERSION
  if (isForServer(request.url) && request.method !== 'OPTIONS') return BAD_TARGET
  if (!isHostSound(request)) return BAD_HOST // whom it is for has one reading, for a proxy in front of us too
  const { expect = '100-continue' } = request.headers
  return expect.toLowerCase() === '100-continue' ? faultOfCoding(request) : BAD_EXPECT
}

/** Before every route. Node would answer some of these itself, without a word. */
function refuseHeads(app: FastifyInstance): void {
  const { server } = app
  refuseTunnels(server)
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  server.on('checkContinue', (request, response) => {
    sayWhenRead(request, response)
    server.emit('request', request, response)
  })
  app.addHook('onRequest', ({ raw }, reply, done) => {
    const why = faultOfHead(raw)
    if (why === OLD_CODING) reply.header('connection', 'close') // nobody knows where its body ends
    done(why)
  })
}

/**
 * The official servers answer what is rare, and to load their packages takes longer than all else of a server: their
 * first question loads them.
 */
function whenAsked<Question extends unknown[], Answer>(
  load: () => Promise<{ answer(...question: Question): Promise<Answer> }>,
) {
  let loading: ReturnType<typeof load> | undefined
  return {
    async answer(...question: Question): Promise<Answer> {
      loading ??= load()
      return (await loading).answer(...question)
    },
  }
}

/**
 * Loads what the first rare question would load, ahead of it: Node never loads a module again that could not be opened
 * once, so a process that has no file descriptor left when that question comes would refuse all like it until its end.
 */
export async function loadRareCode({ jwt }: { jwt: boolean }): Promise<void> {
  await Promise.all([
    import('./transports/mcp-cold.js'),
    import('./transports/a2a-cold.js'),
    ...(jwt ? [import('jose')] : []),
  ])
}

/** Bodies are taken as they are, in JSON and UTF-8 alone: what is in them is read where they are answered. */
function takeJsonBodies(app: FastifyInstance, bodies: Bodies): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', ({ headers, raw }, _payload, done) => {
    const { 'content-encoding': encoding = 'identity', 'content-type': type = '' } = headers
    if (encoding.toLowerCase() !== 'identity') done(ENCODED)
    else if (!isUtf8(type)) done(fault(415, 'A request body must be in UTF-8'))
    else if (Number(headers['content-length']) > BODY_BYTES) done(fault(413, TOO_LARGE))
    else bodies.read(raw, null, done)
  })
}

function tasksOf(options: ServerOptions): Task[] {
  const { facts, previews, replayTtlSeconds, testScenarios, tasks } = options
  const capabilities = getAdcpCapabilities({
    ...{ facts, previews, replayTtlSeconds },
    ...(testScenarios && { testScenarios }),
    changing: tasks.flatMap(({ name, mutating }) => (mutating ? [name] : [])),
  })
  return [capabilities, { ...getSignals(options), modeOf: discoveryMode, isPlain: isPlainPage }, ...tasks]
}

/** No route has a schema (the dispatcher validates), so the compilers that Fastify would load are never asked. */
const noCompiler = () => {
  throw new Error('no route has a schema')
}

/** Throws when tasks contradict each other. */
export function createApp(options: ServerOptions): FastifyInstance {
  const { feed, log, previews, admission, publicUrl, version, now } = options
  const overload = createOverload()
  const observing = createObserving(log, now, overload)
  const addressOf = createAddressOf(options.trustedProxies)
  const tasks = tasksOf(options)
  const changing = new Set(
    tasks.flatMap(({ name, aliases = [], mutating }) => (mutating ? [name, ...aliases] : [])),
  )
  const door = createDoor({
    ...{ callers: admission, overload, publicUrl, addressOf },
    isMutating: (task) => changing.has(task),
    onRefused({ raw, id: requestId }, { status, reason = reasonOfStatus(status) }) {
      const path = raw.url?.split('?')[0] ?? ''
      observing.refused(raw, { path, status, reason, address: addressOf(raw), requestId })
    },
  })
  const dispatcher = createDispatcher({
    ...{ tasks, previews, limiter: admission, now, observe: observing.call },
    ...(options.rest && { rest: options.rest }),
    onBug: (err, { task, requestId }) => log.error({ err, task, requestId }, 'a task failed'),
  })

  const genReqId = createRequestIds()
  const bodies = createBodies(addressOf)
  const lane = createFastLane({
    bodies,
    refuse: (exchange, { statusCode, message }) =>
      door.turnAway(exchange, { ...turnedAway(statusCode, INVALID_MESSAGE, message), headers: LAST }),
    idOf: genReqId,
    isOpen: !options.hooked,
    timeouts: {
      requestTimeout: REQUEST_MS,
      headersTimeout: REQUEST_MS,
      timeout: IDLE_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
    },
    onBug: (err, requestId) => log.error({ err, requestId }, 'a request failed'),
  })
  const app = Fastify({
    logger: false,
    bodyLimit: BODY_BYTES,
    forceCloseConnections: false, // closing.ts ends each when its answers have left
    pluginTimeout: 0, // it counts for the end as well, which waits for what is in flight
    return503OnClosing: false, // whoever had connected is answered (closing.ts)
    // Node would read only the first of two lines that may come once: as one list they are refused where they are read.
    http: { connectionsCheckingInterval: LOOK_MS, joinDuplicateHeaders: true, requireHostHeader: false },
    genReqId,
    clientErrorHandler: answerUnreadable,
    frameworkErrors: (error, _request, reply) => refusePath(error, reply as FastifyReply),
    schemaController: { compilersFactory: { buildValidator: noCompiler, buildSerializer: noCompiler } },
  })
  app.server.maxHeadersCount = 0 // Node would drop what stands behind the thousandth line; their bytes are bounded by `maxHeaderSize`
  lane.before(app)
  const closing = createClosing(app, bodies, now)
  takeJsonBodies(app, bodies)
  answerFaults(app, log)
  refuseHeads(app)
  const { pathOf } = answerStrays(app)
  app.addHook('preHandler', (_request, { raw }, done) => inItsTurn(raw, done))
  app.addHook('onResponse', (request, { statusCode }, done) => {
    const { raw, id: requestId } = request
    if (statusCode >= 400 && !observing.hasTold(raw)) {
      const reason = door.reasonOf(raw) ?? reasonOfStatus(statusCode)
      const address = addressOf(raw)
      observing.refused(raw, { path: pathOf(request), status: statusCode, reason, address, requestId })
    }
    done()
  })
  const shared = {
    lane,
    readBody: createBodyReader(),
    door,
    dispatcher,
    rareTurns: createRareTurns(admission, now),
    overload,
    gzip: createGzipPages(),
    now,
  }
  const mcpCold = whenAsked(async () =>
    (await import('./transports/mcp-cold.js')).createMcpCold({ tasks, version }),
  )
  addMcp(app, { cold: mcpCold, ...shared })
  const card = agentCard({ publicUrl, version, tasks })
  const a2aTasks = createA2aTasks(now, options.sharedTasks)
  const a2aCold = whenAsked(async () =>
    (await import('./transports/a2a-cold.js')).createA2aCold({ card, tasks: a2aTasks }),
  )
  addA2a(app, { cold: a2aCold, tasks: a2aTasks, card, ...shared })
  addOperations(app, {
    ...options,
    ...{ isReady: feed.isServing, door, registry: observing.registry },
  })
  if (options.signingKey) addIdentity(app, { publicUrl, key: options.signingKey })
  const { registryListing: list, explain, refresh, routes } = options
  if (list) addRegistryListing(app, { door, limiter: admission, now, list })
  if (explain) addExplain(app, { door, explain })
  if (options.feedEvents) addFeedEvents(app, { receive: options.feedEvents, addressOf: door.addressOf })
  if (refresh) addRefresh(app, { door, refresh })
  routes?.(app, { door, publicUrl })
  app.addHook('preClose', closing.ended)
  app.addHook('onClose', async () => overload.close())
  return app
}
