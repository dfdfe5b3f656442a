/**
 * Spans from a request of a caller to the requests that it causes at upstreams, with the context passed on in the
 * headers that the operator's propagator writes (W3C `traceparent` as a rule). OpenTelemetry's API only: an SDK that is
 * loaded before us (`node --import`) makes the spans real, without one nothing here costs anything.
 */
import { createRequire } from 'node:module'
import type { Attributes, Span, SpanStatusCode } from '@opentelemetry/api'
import type { FastifyInstance } from 'fastify'
import type { Send, SendOutcome } from '../net/send.js'
import { whenOver } from '../server/answer/connection.js'

const NAME = 'tributary'
const ERROR: SpanStatusCode.ERROR = 2

/** Where each copy of the API finds what an SDK has registered with one of them. */
const REGISTERED = Symbol.for('opentelemetry.js.api.1')

const require = createRequire(import.meta.url)

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
  const tracer = trace.getTracer(NAME)
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
  const tracer = trace.getTracer(NAME)
  // Around the handler only: however a body is read, and in whatever chain of callbacks, the context holds from here on.
  app.addHook('preHandler', (request, reply, done) => {
    const { method, headers, routeOptions } = request
    const route = routeOptions.url ?? 'none'
    const parent = propagation.extract(context.active(), headers)
    const attributes = { 'http.request.method': method, 'http.route': route }
    const span = tracer.startSpan(`${method} ${route}`, { kind: SpanKind.SERVER, attributes }, parent)
    whenOver(reply.raw, () => {
      const { statusCode } = reply.raw
      end(span, { 'http.response.status_code': statusCode }, statusCode >= 500)
    })
    context.with(trace.setSpan(parent, span), done)
  })
}
