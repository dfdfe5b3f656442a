/**
 * What an operator asks of a running server: is it alive, is it ready, what does it count. No label names a caller,
 * an account or anything a caller sent (docs/decisions.md#callers): labels are our own closed words.
 */
import type { FastifyInstance } from 'fastify'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Observed } from './answer/dispatcher.js'
import type { Door } from './door/door.js'
import type { Overload } from './door/overload.js'

const BUCKETS_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30, 120]

/** Counters of the serving side. */
export function createServingMetrics(overload: Overload) {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const labelNames = ['task', 'transport', 'outcome'] as const
  const calls = new Counter({
    name: 'tributary_task_calls_total',
    help: 'Task calls by outcome: completed, submitted, or the code of the error',
    labelNames,
    registers: [registry],
  })
  const seconds = new Histogram({
    name: 'tributary_task_seconds',
    help: 'Time from the parsed request to the prepared answer',
    labelNames: ['task', 'transport'],
    buckets: BUCKETS_SECONDS,
    registers: [registry],
  })
  new Gauge({
    name: 'tributary_pending_calls',
    help: 'Calls that wait for something other than this process',
    registers: [registry],
    collect() {
      this.set(overload.pending())
    },
  })

  function observe({ task, transport, outcome, ms }: Observed): void {
    calls.inc({ task, transport, outcome })
    seconds.observe({ task, transport }, ms / 1_000)
  }

  return { registry, observe }
}

/** How far the published feed is behind what it is made from. */
export type Revisions = {
  /** Of the published generation; 0 before the first. */
  built: number
  wanted: number
  /** Age of the oldest change that is not published, ms; 0 when there is none. */
  behindMs: number
}

export type OperationsOptions = {
  /** Whether the first snapshot is there, and can be searched. */
  isReady: () => boolean
  configuration?: () => { revision: string; problem?: string }
  revisions?: () => Revisions
  door: Door
  /** Shown to everybody who may call at all. */
  registry: Registry
  /** Shown to operators only: these may name upstreams. */
  operatorRegistry?: Registry
}

function shownRevisions({ built, wanted, behindMs }: Revisions) {
  return { built, wanted, behind_ms: behindMs }
}

export function addOperations(app: FastifyInstance, options: OperationsOptions): void {
  const { isReady, configuration, revisions, door, registry, operatorRegistry } = options

  app.get('/healthz', () => ({ status: 'ok' }))

  app.get('/readyz', (_request, reply) => {
    const running = {
      ...(revisions && { revision: shownRevisions(revisions()) }),
      ...(configuration && { configuration: configuration() }),
    }
    return isReady()
      ? { status: 'ready', ...running }
      : reply
          .code(503)
          .header('retry-after', '1')
          .send({ status: 'starting', ...running })
  })

  app.get('/metrics', async (request, reply) => {
    const who = await door.enter(request)
    const isOperator = who.kind === 'caller' && who.caller.role === 'operator'
    const shown = isOperator && operatorRegistry ? Registry.merge([registry, operatorRegistry]) : registry
    return reply.header('content-type', shown.contentType).send(await shown.metrics())
  })
}
