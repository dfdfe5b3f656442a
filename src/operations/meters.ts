/**
 * What is measured where it happens: how long the serving thread is blocked and answers nothing, and the requests to each
 * upstream with their outcomes, as a wrapper around `send`, so that the code of upstreams does not deal with metrics. Gives
 * `tributary_loop_*` and `tributary_upstream_request*` (docs/metrics.md) and the measured part of `health` in the registry
 * listing. And spans from a request of a caller to the requests that it causes at upstreams, with the context passed on in the
 * headers that the operator's propagator writes (W3C `traceparent` as a rule). OpenTelemetry's API only: an SDK that is loaded
 * before us (`node --import`) makes the spans real, without one nothing here costs anything.
 */
import { createRequire } from 'node:module'
import type { Attributes, Span, SpanStatusCode } from '@opentelemetry/api'
import type { FastifyInstance } from 'fastify'
import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { Send, SendOutcome } from '../net/send.js'
import { createRecent } from '../process/memory.js'
import type { RosterEntry } from '../upstreams/roster/roster.js'

const EVERY_MS = 10
const NOTABLE_MS = 20 // shorter delays come from the timer's own precision
const STOP_SECONDS = [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const BUCKETS_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const MAX_URLS = 10_000
const OTHERS = 'others' // upstreams without a series of their own
const OTHER = 'other' // requests to registries, and to upstreams that have left the roster meanwhile
const TRACER = 'tributary'
const ERROR: SpanStatusCode.ERROR = 2

/** Where each copy of the API finds what an SDK has registered with one of them. */
const REGISTERED = Symbol.for('opentelemetry.js.api.1')

const require = createRequire(import.meta.url)

/**
 * Measures how long the thread is blocked, into metrics of `registry`, until it is closed. A timer that fires late shows it;
 * work in other threads does not count.
 */
export function createWatchdog(registry: Registry) {
  let last = performance.now()
  let longestMs = 0
  const stops = new Histogram({
    name: 'tributary_loop_stop_seconds',
    help: 'Stops of the serving thread, those of 20 ms and more',
    buckets: STOP_SECONDS,
    registers: [registry],
  })
  new Gauge({
    name: 'tributary_loop_longest_stop_seconds',
    help: 'The longest stop of the serving thread, since the start',
    registers: [registry],
    collect() {
      this.set(longestMs / 1_000)
    },
  })
  const timer = setInterval(() => {
    const now = performance.now()
    const stopMs = now - last - EVERY_MS
    last = now
    if (stopMs > longestMs) longestMs = stopMs
    if (stopMs >= NOTABLE_MS) stops.observe(stopMs / 1_000)
  }, EVERY_MS)
  timer.unref()

  return { close: () => clearInterval(timer) }
}

/**
 * The names of upstreams in labels: the id of up to `most` of the roster, so that a registry with ten thousand agents does not
 * make as many series, and `others` for the rest. The place of one that leaves is free for another; `left` is told of it.
 */
export function createUpstreamLabels(
  entries: () => readonly RosterEntry[],
  most: number,
  left: (id: string) => void,
) {
  const labelled = new Set<string>()
  let known: readonly RosterEntry[] = []

  function follow(): void {
    const current = entries()
    if (current === known) return
    known = current
    const ids = new Set(current.map(({ id }) => id))
    for (const id of labelled) {
      if (ids.has(id)) continue
      labelled.delete(id)
      left(id)
    }
    for (const id of ids) if (labelled.size < most) labelled.add(id)
  }

  return (id: string): string => {
    follow()
    return labelled.has(id) ? id : OTHERS
  }
}

/** The last exchange with an upstream that brought an answer, whatever its status. */
type Answered = { at: number; ms: number }

export type UpstreamMeter = {
  metered(send: Send): Send
  /** Last answer of an agent (canonical url); undefined when it has not answered yet. */
  lastAnswer(agentUrl: string): Answered | undefined
  /** Drops the series of an upstream that has left the roster. */
  forget(upstream: string): void
}

type UpstreamMeterOptions = {
  registry: Registry
  entries(): readonly RosterEntry[]
  /** The name of an upstream in labels. */
  labelOf(entry: RosterEntry): string
  now(): number
}

function outcomeOf(outcome: SendOutcome): string {
  if (outcome.kind === 'failed') return outcome.reason
  return `${Math.floor(outcome.status / 100)}xx`
}

type Place = { entry: RosterEntry; pathname: string }

/** Who is at each host. */
function placesOf(entries: readonly RosterEntry[]): ReadonlyMap<string, readonly Place[]> {
  const places = new Map<string, Place[]>()
  for (const entry of entries) {
    const { host, pathname } = new URL(entry.url)
    const atHost = places.get(host)
    if (atHost) atHost.push({ entry, pathname })
    else places.set(host, [{ entry, pathname }])
  }
  return places
}

function sharedLength(a: string, b: string): number {
  let at = 0
  while (at < a.length && a[at] === b[at]) at += 1
  return at
}

/**
 * Whose request it is: agent cards and A2A endpoints have other paths than the agent's url, so the entry of that host with
 * the longest shared path is taken.
 */
function nearest(atHost: readonly Place[], { pathname }: URL): RosterEntry | undefined {
  const nearness = (place: Place) => sharedLength(place.pathname, pathname)
  return atHost.reduce<Place | undefined>(
    (best, place) => (best && nearness(best) >= nearness(place) ? best : place),
    undefined,
  )?.entry
}

/** Registers its metrics in `registry`. */
export function createUpstreamMeter({
  registry,
  entries,
  labelOf,
  now,
}: UpstreamMeterOptions): UpstreamMeter {
  const registers = [registry]
  const requests = new Counter({
    name: 'tributary_upstream_requests_total',
    help: 'HTTP requests to an upstream by outcome: the class of the status, or why there was none',
    labelNames: ['upstream', 'outcome'],
    registers,
  })
  const seconds = new Histogram({
    name: 'tributary_upstream_request_seconds',
    help: 'Time from an HTTP request to the end of its answer',
    labelNames: ['upstream'],
    buckets: BUCKETS_SECONDS,
    registers,
  })
  const bytes = new Counter({
    name: 'tributary_upstream_received_bytes_total',
    help: 'Decoded bytes of the answers of an upstream',
    labelNames: ['upstream'],
    registers,
  })
  const inFlight = new Set<{ readonly url: string }>()
  new Gauge({
    name: 'tributary_upstream_requests_in_flight',
    help: 'HTTP requests to an upstream that wait for their answer',
    labelNames: ['upstream'],
    registers,
    collect() {
      this.reset()
      for (const entry of entries()) this.inc({ upstream: labelOf(entry) }, 0)
      for (const { url } of inFlight) this.inc({ upstream: nameOf(ownerOf(url)) })
    },
  })
  const outcomes = new Set<string>()
  const answers = createRecent<Answered>(MAX_URLS)
  const owners = createRecent<{ entry: RosterEntry | undefined }>(MAX_URLS)
  let known: readonly RosterEntry[] = []
  let places = placesOf(known)

  function ownerOf(text: string): RosterEntry | undefined {
    const current = entries()
    if (current !== known) {
      owners.clear()
      known = current
      places = placesOf(current)
    }
    if (!URL.canParse(text)) return undefined
    const url = new URL(text)
    const place = `${url.host}${url.pathname}`
    const held = owners.get(place) ?? { entry: nearest(places.get(url.host) ?? [], url) }
    owners.set(place, held)
    return held.entry
  }

  const nameOf = (entry: RosterEntry | undefined) => (entry ? labelOf(entry) : OTHER)

  /** Counted for whose the url is when the answer has come: who was asked may have left meanwhile. */
  function metered(send: Send): Send {
    return async (request) => {
      const startedAt = now()
      const waiting = { url: request.url }
      inFlight.add(waiting)
      try {
        const outcome = await send(request)
        const ms = now() - startedAt
        const entry = ownerOf(request.url)
        const upstream = nameOf(entry)
        const what = outcomeOf(outcome)
        outcomes.add(what)
        requests.inc({ upstream, outcome: what })
        seconds.observe({ upstream }, ms / 1_000)
        if (outcome.kind === 'reply') {
          bytes.inc({ upstream }, outcome.body.byteLength)
          if (entry) answers.set(entry.agentUrl, { at: now(), ms })
        }
        return outcome
      } finally {
        inFlight.delete(waiting)
      }
    }
  }

  function forget(upstream: string): void {
    for (const outcome of outcomes) requests.remove({ upstream, outcome })
    seconds.remove({ upstream })
    bytes.remove({ upstream })
  }

  return { metered, lastAnswer: (agentUrl) => answers.get(agentUrl), forget }
}

/** The API, where an SDK is loaded: it registers a propagator, without which no context comes in and none goes out. */
function registeredApi() {
  if (!(REGISTERED in globalThis)) return undefined // and its fifty files are not read
  const api = require('@opentelemetry/api') as typeof import('@opentelemetry/api')
  return api.propagation.fields().length > 0 ? api : undefined
}

/** Whether an SDK is loaded. */
export const isTracing = (): boolean => registeredApi() !== undefined

function endOf(outcome: SendOutcome): { attributes: Attributes; failed: boolean } {
  if (outcome.kind === 'failed') return { attributes: { 'error.type': outcome.reason }, failed: true }
  const { status } = outcome
  return { attributes: { 'http.response.status_code': status }, failed: status >= 400 }
}

function end(span: Span, attributes: Attributes, failed: boolean): void {
  span.setAttributes(attributes)
  if (failed) span.setStatus({ code: ERROR })
  span.end()
}

/** A `Send` with a client span for each request. Spans name the host alone: other parts of a url may hold secrets. */
export function tracedSend(send: Send): Send {
  const api = registeredApi()
  if (!api) return send
  const { context, propagation, SpanKind, trace } = api
  const tracer = trace.getTracer(TRACER)
  return async (request) => {
    const method = request.method ?? 'GET'
    const host = URL.canParse(request.url) ? new URL(request.url).host : 'no url'
    const attributes = { 'http.request.method': method, 'server.address': host }
    const span = tracer.startSpan(`${method} ${host}`, { kind: SpanKind.CLIENT, attributes })
    const headers = { ...request.headers }
    propagation.inject(trace.setSpan(context.active(), span), headers)
    const outcome = await send({ ...request, headers })
    const { attributes: result, failed } = endOf(outcome)
    end(span, result, failed)
    return outcome
  }
}

/**
 * Adds a server span for each request, as the child of the caller's span. Call it before the app listens. It ends with the
 * raw response, because answers are written on hijacked replies, where Fastify runs no hook at the end.
 */
export function traceRequests(app: FastifyInstance): void {
  const api = registeredApi()
  if (!api) return
  const { context, propagation, SpanKind, trace } = api
  const tracer = trace.getTracer(TRACER)
  // Around the handler only: however a body is read, and in whatever chain of callbacks, the context holds from here on.
  app.addHook('preHandler', (request, reply, done) => {
    const { method, headers, routeOptions } = request
    const route = routeOptions.url ?? 'none'
    const parent = propagation.extract(context.active(), headers)
    const attributes = { 'http.request.method': method, 'http.route': route }
    const span = tracer.startSpan(`${method} ${route}`, { kind: SpanKind.SERVER, attributes }, parent)
    reply.raw.once('close', () => {
      const { statusCode } = reply.raw
      end(span, { 'http.response.status_code': statusCode }, statusCode >= 500)
    })
    context.with(trace.setSpan(parent, span), done)
  })
}
