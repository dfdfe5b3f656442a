/**
 * What an operator learns of a running server: its log of calls and requests, what it counts, whether it is alive and ready.
 * Labels are closed words of ours, and never name a caller, an account or anything that a caller sent
 * (docs/decisions.md#callers).
 *
 * The log has one line for each call or request that is refused or fails, with its reason, and one for every thousandth
 * other call. Whoever is refused may come again at once and for ever, so the lines have a bound; those that it left out are
 * counted in the next one.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'
import type { Logger } from 'pino'
import { Counter, collectDefaultMetrics, Gauge, type Histogram, Registry } from 'prom-client'
import { createRateLimiter } from './door/admission.js'
import type { Observed } from './door/dispatcher.js'
import type { Door } from './door/door.js'
import type { Overload } from './door/overload.js'
import { refusePlainly } from './door/turned-away.js'

const LOG_EVERY = 1_000
const BOUND = { perSecond: 10, burst: 100 } // lines
const BUCKETS_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30, 120]

/** The reason of an answer that nobody has given one for. */
const BY_STATUS: Readonly<Record<number, string>> = {
  400: 'invalid_request',
  401: 'no_credentials',
  403: 'forbidden',
  404: 'not_found',
  405: 'method_not_allowed',
  406: 'not_acceptable',
  409: 'conflict',
  413: 'too_large',
  415: 'unsupported_media_type',
  429: 'rate_limited',
  501: 'not_implemented',
  503: 'unavailable',
}

/** A request, or one message of a batch, that came to no task. */
type RefusedRequest = {
  method: string
  /** The pattern of the route: paths and queries can hold secrets. */
  path: string
  status: number
  /** A closed word of ours. */
  reason: string
  address: string
  requestId: string
}

/** Calls of one kind: their outcomes, and how many took up to each bound and more than the one before. */
type Counted = { outcomes: Map<string, number>; counts: number[]; seconds: number }
type Kind = Pick<Observed, 'task' | 'transport' | 'mode'>

/** How far the published feed is behind what it is made from. */
export type Revisions = {
  /** Of the published generation; 0 before the first. */
  built: number
  wanted: number
  /** Age of the oldest change that is not published, ms; 0 when there is none. */
  behindMs: number
}

/** Which configuration runs. */
export type RunningConfiguration = {
  revision: string
  /** Of the file as it stands; absent when it cannot be read. */
  file_revision?: string
  /** Why the file as it stands is not the running configuration. */
  problem?: string
  /** How many live processes on one storage run each revision; absent: it is alone. */
  replicas?: Readonly<Record<string, number>>
}

/** What a running server can tell of itself. */
export type RunningState = {
  /** Whether no more requests should be sent here: it still answers, and another process, or the next one, will. */
  isStopping: () => boolean
  configuration?: () => RunningConfiguration
  revisions?: () => Revisions
  /** Why what must be stored cannot be just now; undefined when it can. */
  storageProblem?: () => string | undefined
  /** Metrics shown to operators only: these may name upstreams. */
  operatorRegistry?: Registry
}

type OperationsOptions = RunningState & {
  /** Whether the first snapshot is there, and can be searched. */
  isReady: () => boolean
  door: Door
  /** Metrics shown to everybody who may call at all. */
  registry: Registry
}

export function reasonOfStatus(status: number): string {
  return BY_STATUS[status] ?? (status >= 500 ? 'failed' : 'refused')
}

/** Lines of one kind within the bound. */
function createLines(log: Logger, now: () => number) {
  const bound = createRateLimiter(BOUND)
  let leftOut = 0
  return (level: 'info' | 'warn', line: object, message: string): void => {
    if (bound.take('', now()) > 0) {
      leftOut += 1
      return
    }
    log[level](leftOut > 0 ? { ...line, leftOut } : line, message)
    leftOut = 0
  }
}

function createCallLog(log: Logger, now: () => number) {
  const calls = createLines(log, now)
  const requests = createLines(log, now) // a flood at the door must not hide what callers are refused
  let observed = 0
  return {
    call(call: Observed): void {
      const isRefused = /^[A-Z]/.test(call.outcome)
      if (isRefused) calls(call.outcome === 'SERVICE_UNAVAILABLE' ? 'warn' : 'info', call, 'refused')
      if (observed++ % LOG_EVERY === 0) log.info({ ...call, oneOf: LOG_EVERY }, 'call')
    },
    request(refused: RefusedRequest): void {
      requests(
        refused.status >= 500 || refused.reason === 'failed' ? 'warn' : 'info',
        refused,
        'refused at the door',
      )
    },
  }
}

/**
 * Counts calls and their durations. They are given to the metrics library only when somebody reads the metrics: its own
 * counters format and sort their labels at every call, which costs as much as an answer.
 */
function createCallCounts(registry: Registry) {
  const kinds: { kind: Kind; counted: Counted }[] = []

  new Counter({
    name: 'tributary_task_calls_total',
    help: 'Task calls by outcome: completed, submitted, or the code of the error',
    labelNames: ['task', 'transport', 'outcome'],
    registers: [registry],
    collect() {
      this.reset()
      for (const { kind, counted } of kinds) {
        const { task, transport } = kind
        for (const [outcome, count] of counted.outcomes) this.inc({ task, transport, outcome }, count)
      }
    },
  })
  const name = 'tributary_task_seconds'
  const histogram = {
    name,
    help: 'Time from the parsed request to the prepared answer; mode tells wholesale pages, lookups and briefs apart',
    type: 'histogram',
    aggregator: 'sum',
    values: [] as { metricName: string; labels: Record<string, string | number>; value: number }[],
  }
  function collected() {
    const values: typeof histogram.values = []
    for (const { kind, counted } of kinds) {
      const { counts, seconds } = counted
      const { task, transport, mode } = kind
      const labels = { task, transport, ...(mode !== undefined && { mode }) }
      let sum = 0
      for (const [at, bound] of [...BUCKETS_SECONDS, '+Inf'].entries()) {
        sum += counts[at] as number
        values.push({ metricName: `${name}_bucket`, labels: { le: bound, ...labels }, value: sum })
      }
      values.push({ metricName: `${name}_sum`, labels, value: seconds })
      values.push({ metricName: `${name}_count`, labels, value: sum })
    }
    return { ...histogram, values }
  }
  registry.registerMetric({ name, get: async () => collected() } as unknown as Histogram)

  /** There are a few dozen kinds, and most calls are of the one before. */
  let last: (typeof kinds)[number] | undefined
  function countedOf(task: string, transport: Kind['transport'], mode: string | undefined): Counted {
    const isSame = ({ kind }: (typeof kinds)[number]) =>
      kind.task === task && kind.transport === transport && kind.mode === mode
    if (last && isSame(last)) return last.counted
    last = kinds.find(isSame)
    if (!last) {
      const counts = Array.from({ length: BUCKETS_SECONDS.length + 1 }, () => 0)
      last = {
        kind: { task, transport, mode },
        counted: { outcomes: new Map(), counts, seconds: 0 },
      }
      kinds.push(last)
    }
    return last.counted
  }

  return function observe({ task, transport, mode, outcome, ms }: Observed): void {
    const counted = countedOf(task, transport, mode)
    counted.outcomes.set(outcome, (counted.outcomes.get(outcome) ?? 0) + 1)
    const seconds = ms / 1_000
    let at = 0
    while (at < BUCKETS_SECONDS.length && seconds > (BUCKETS_SECONDS[at] as number)) at += 1
    counted.counts[at] = (counted.counts[at] as number) + 1
    counted.seconds += seconds
  }
}

/** Counters of the serving side. */
export function createServingMetrics(overload: Overload) {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const observe = createCallCounts(registry)
  new Gauge({
    name: 'tributary_pending_calls',
    help: 'Calls that wait for something other than this process',
    registers: [registry],
    collect() {
      this.set(overload.pending())
    },
  })
  const refused = new Counter({
    name: 'tributary_refused_requests_total',
    help: 'Requests that called no task, by reason: wrong_credentials, too_many_guesses, not_found, and so on',
    labelNames: ['reason'],
    registers: [registry],
  })
  return { registry, observe, refused: (reason: string) => refused.inc({ reason }) }
}

/** What is written down of each call, and of each request that came to none: in the log and in the metrics. */
export function createObserving(log: Logger, now: () => number, overload: Overload) {
  const metrics = createServingMetrics(overload)
  const callLog = createCallLog(log, now)
  const told = new WeakSet<IncomingMessage>()
  return {
    registry: metrics.registry,
    call(call: Observed): void {
      metrics.observe(call)
      callLog.call(call)
    },
    refused(raw: IncomingMessage, refusal: Omit<RefusedRequest, 'method'>): void {
      told.add(raw)
      metrics.refused(refusal.reason)
      callLog.request({ method: raw.method ?? '', ...refusal })
    },
    hasTold: (raw: IncomingMessage) => told.has(raw),
  }
}

function shownRevisions({ built, wanted, behindMs }: Revisions) {
  return { built, wanted, behind_ms: behindMs }
}

/**
 * A request without credentials is answered as an anonymous one, and counters are wanted above all when the server is
 * overloaded.
 */
function mayCount(status: number, headers: IncomingHttpHeaders): boolean {
  const isAnonymous = headers.authorization === undefined && headers['x-adcp-auth'] === undefined
  return status === 503 || (status === 401 && isAnonymous)
}

export function addOperations(app: FastifyInstance, options: OperationsOptions): void {
  const { isReady, isStopping, configuration, revisions, storageProblem } = options
  const { door, registry, operatorRegistry } = options

  app.get('/healthz', () => ({ status: 'ok' }))

  app.get('/readyz', (_request, reply) => {
    const problem = storageProblem?.()
    const running = {
      ...(revisions && { revision: shownRevisions(revisions()) }),
      ...(configuration && { configuration: configuration() }),
      ...(problem !== undefined && { storage: { problem } }),
    }
    if (isReady() && !isStopping()) return { status: 'ready', ...running }
    return reply
      .code(503)
      .header('retry-after', '1')
      .send({ status: isStopping() ? 'stopping' : 'starting', ...running })
  })

  app.get('/metrics', async (request, reply) => {
    const who = await door.enter(request)
    if (who.kind === 'turned_away' && !mayCount(who.status, request.headers)) return refusePlainly(reply, who)
    const isOperator = who.kind === 'caller' && who.caller.role === 'operator'
    const shown = isOperator && operatorRegistry ? Registry.merge([registry, operatorRegistry]) : registry
    return reply.header('content-type', shown.contentType).send(await shown.metrics())
  })
}
