/** The smallest OpenTelemetry SDK there is: spans are kept in a list, context follows the calls, W3C headers carry it. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'
import {
  type Attributes,
  type Context,
  type ContextManager,
  context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  type SpanKind,
  type TextMapPropagator,
  trace,
} from '@opentelemetry/api'

export type Recorded = {
  name: string
  kind: SpanKind | undefined
  spanContext: SpanContext
  parentSpanId: string | undefined
  attributes: Attributes
  ended: boolean
  failed: boolean
}

const HEADER = 'traceparent'

function contextManager(): ContextManager {
  const storage = new AsyncLocalStorage<Context>()
  const manager: ContextManager = {
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (active, task, thisArg, ...args) => storage.run(active, () => task.call(thisArg as never, ...args)),
    bind: (_active, target) => target,
    enable: () => manager,
    disable: () => manager,
  }
  return manager
}

const w3c: TextMapPropagator<Record<string, string>> = {
  fields: () => [HEADER],
  inject(active, carrier) {
    const span = trace.getSpanContext(active)
    if (span) carrier[HEADER] = `00-${span.traceId}-${span.spanId}-01`
  },
  extract(active, carrier) {
    const [, traceId, spanId] = /^00-([0-9a-f]{32})-([0-9a-f]{16})-/.exec(carrier[HEADER] ?? '') ?? []
    if (!traceId || !spanId) return active
    return trace.setSpanContext(active, { traceId, spanId, traceFlags: 1, isRemote: true })
  },
}

/** Registers itself as the process's SDK; gives the spans, in the order of their start. */
export function recordSpans(): Recorded[] {
  const spans: Recorded[] = []
  context.setGlobalContextManager(contextManager())
  propagation.setGlobalPropagator(w3c)
  trace.setGlobalTracerProvider({
    getTracer: () => ({
      startActiveSpan() {
        throw new Error('nobody here uses it')
      },
      startSpan(name, options = {}, active = context.active()) {
        const parent = trace.getSpanContext(active)
        const traceId = parent?.traceId ?? randomBytes(16).toString('hex')
        const spanContext = { traceId, spanId: randomBytes(8).toString('hex'), traceFlags: 1 }
        const recorded: Recorded = {
          ...{ name, kind: options.kind, spanContext, parentSpanId: parent?.spanId },
          ...{ attributes: { ...options.attributes }, ended: false, failed: false },
        }
        spans.push(recorded)
        const span: Span = {
          spanContext: () => spanContext,
          setAttribute: () => span,
          setAttributes(attributes) {
            Object.assign(recorded.attributes, attributes)
            return span
          },
          addEvent: () => span,
          addLink: () => span,
          addLinks: () => span,
          setStatus() {
            recorded.failed = true
            return span
          },
          updateName: () => span,
          end() {
            recorded.ended = true
          },
          isRecording: () => true,
          recordException() {},
        }
        return span
      },
    }),
  })
  return spans
}
