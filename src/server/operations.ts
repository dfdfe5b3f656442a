/**
 * What an operator asks of a running server: is it alive, is it ready, what does it count. Labels are closed words of
 * ours, and never name a caller, an account or anything that a caller sent (docs/decisions.md#callers).
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { Counter, collectDefaultMetrics, Gauge, type Histogram, Registry } from 'prom-client'
import type { Observed } from './door/dispatcher.js'
import { type Door, refusePlainly } from './door/door.js'
import type { Overload } from './door/overload.js'

const BUCKETS_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30, 120]

/** How long calls of one kind took: how many up to each bound, not more than the one before. */
type Durations = { counts: number[]; seconds: number }

/**
 * Counts calls and their durations. They are given to the metrics library only when somebody reads the metrics: its own
 * counters format and sort their labels at every call, which costs as much as an answer.
 */
function createCallCounts(registry: Registry) {
  const calls = new Map<string, Map<string, Map<string, number>>>()
  const durations = new Map<string, Map<string, Durations>>() // by task, then by transport and mode

  function each<T>(counts: Map<string, Map<string, T>>, told: (task: string, kind: string, one: T) => void) {
    for (const [task, ofTask] of counts) for (const [kind, one] of ofTask) told(task, kind, one)
  }

  new Counter({
    name: 'tributary_task_calls_total',
    help: 'Task calls by outcome: completed, submitted, or the code of the error',
    labelNames: ['task', 'transport', 'outcome'],
    registers: [registry],
    collect() {
      this.reset()
      each(calls, (task, transport, outcomes) => {
        for (const [outcome, count] of outcomes) this.inc({ task, transport, outcome }, count)
      })
    },
  })
  const name = 'tributary_task_seconds'
  const histogram = {
    name,
    help: 'Time from the parsed request to the prepared answer',
    type: 'histogram',
    aggregator: 'sum',
    values: [] as { metricName: string; labels: Record<string, string | number>; value: number }[],
  }
  function collected() {
    const values: typeof histogram.values = []
    each(durations, (task, kind, { counts, seconds }) => {
      const [transport = '', mode = ''] = kind.split(' ')
      const labels = { task, transport, ...(mode !== '' && { mode }) }
      let sum = 0
      for (const [at, bound] of [...BUCKETS_SECONDS, '+Inf'].entries()) {
        sum += counts[at] as number
        values.push({ metricName: `${name}_bucket`, labels: { le: bound, ...labels }, value: sum })
      }
      values.push({ metricName: `${name}_sum`, labels, value: seconds })
      values.push({ metricName: `${name}_count`, labels, value: sum })
    })
    return { ...histogram, values }
  }
  registry.registerMetric({ name, get: async () => collected() } as unknown as Histogram)

  function inner<T>(outer: Map<string, Map<string, T>>, one: string, other: string, make: () => T): T {
    const ofOne = outer.get(one) ?? new Map<string, T>()
    outer.set(one, ofOne)
    const found = ofOne.get(other) ?? make()
    ofOne.set(other, found)
    return found
  }

  return function observe({ task, transport, mode, outcome, ms }: Observed): void {
    const outcomes = inner(calls, task, transport, () => new Map<string, number>())
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    const took = inner(durations, task, mode === undefined ? transport : `${transport} ${mode}`, () => ({
      counts: Array.from({ length: BUCKETS_SECONDS.length + 1 }, () => 0),
      seconds: 0,
    }))
    const seconds = ms / 1_000
    const found = BUCKETS_SECONDS.findIndex((bound) => seconds <= bound)
    const at = found < 0 ? BUCKETS_SECONDS.length : found
    took.counts[at] = (took.counts[at] as number) + 1
    took.seconds += seconds
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
    help: 'Requests that came to no task, by reason: wrong_credentials, too_many_guesses, not_found, and so on',
    labelNames: ['reason'],
    registers: [registry],
  })
  return { registry, observe, refused: (reason: string) => refused.inc({ reason }) }
}

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

type OperationsOptions = {
  /** Whether the first snapshot is there, and can be searched. */
  isReady: () => boolean
  /** Whether it has been told to stop; it still answers. */
  isStopping?: () => boolean
  configuration?: () => RunningConfiguration
  revisions?: () => Revisions
  /** Why what must be stored cannot be just now; undefined when it can. */
  storageProblem?: () => string | undefined
  door: Door
  /** Shown to everybody who may call at all. */
  registry: Registry
  /** Shown to operators only: these may name upstreams. */
  operatorRegistry?: Registry
}

function shownRevisions({ built, wanted, behindMs }: Revisions) {
  return { built, wanted, behind_ms: behindMs }
}

/** A request without credentials is answered as an anonymous one, and counters are wanted above all when the server is overloaded. */
function mayCount(status: number, headers: IncomingHttpHeaders): boolean {
  const isAnonymous = headers.authorization === undefined && headers['x-adcp-auth'] === undefined
  return status === 503 || (status === 401 && isAnonymous)
}

export function addOperations(app: FastifyInstance, options: OperationsOptions): void {
  const {
    isReady,
    isStopping = () => false,
    configuration,
    revisions,
    storageProblem,
    door,
    registry,
    operatorRegistry,
  } = options

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
