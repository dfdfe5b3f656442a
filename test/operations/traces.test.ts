import { hash } from 'node:crypto'
import { SpanKind } from '@opentelemetry/api'
import { test } from 'tap'
import { openTributary } from '../support/listing-registry.js'
import { recordSpans } from '../support/recording-tracer.js'
import { readJson, startHttp } from '../support/upstream-agent.js'
import { CAPABILITIES, wholesaleAgent } from '../support/upstream-feed.js'
import { row, until } from '../support/upstream-world.js'

const TRACE = 'a'.repeat(32)
const SPAN = 'b'.repeat(16)

test('a caller’s trace goes on through us to the upstream that its request calls', async (t) => {
  const spans = recordSpans() // before anything starts, as `node --import` does
  const native = { ...row(1), signal_ref: undefined, signal_type: 'owned' }
  const agent = wholesaleAgent([native], 'v1')
  const seen: { method: string; task?: string; traceparent?: string }[] = []
  const upstream = await startHttp(async (request, response) => {
    const body = (await readJson(request)) as {
      id: number
      method: string
      params?: { name?: string; arguments?: object }
    }
    const { method, params = {} } = body
    const { traceparent } = request.headers
    seen.push({ method, ...(params.name && { task: params.name }), traceparent: String(traceparent) })
    const payload =
      params.name === 'activate_signal'
        ? {
            status: 'completed',
            deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: true }],
          }
        : params.name === 'get_adcp_capabilities'
          ? CAPABILITIES
          : agent.handle(params.name ?? '', { pagination: {}, ...params.arguments })
    const result =
      method === 'initialize' ? { protocolVersion: '2025-11-25' } : { structuredContent: payload }
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ jsonrpc: '2.0', id: body.id, result }))
  })
  t.teardown(() => upstream.close())
  const { url, ready, feed } = await openTributary(t, {
    upstreams: [{ id: 'own', url: upstream.url, protocol: 'mcp' }],
    callers: { keys: [{ id: 'buyer', token_sha256: hash('sha256', 'buyer-key', 'hex') }] },
  })
  await ready
  const call = async (name: string, input: object) => {
    const response = await fetch(`${url}/mcp`, {
      method: 'POST',
      headers: {
        authorization: 'Bearer buyer-key',
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-06-18',
        traceparent: `00-${TRACE}-${SPAN}-01`,
      },
      body: JSON.stringify({
        ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
        params: { name, arguments: input },
      }),
    })
    const body = (await response.json()) as { result: { structuredContent: Record<string, unknown> } }
    return body.result.structuredContent
  }
  const { signals } = await call('get_signals', { discovery_mode: 'wholesale', pagination: {} })
  const [signal] = signals as {
    signal_agent_segment_id: string
    pricing_options: { pricing_option_id: string }[]
  }[]
  t.ok(signal && feed.current())
  const activated = await call('activate_signal', {
    idempotency_key: 'traces-test-0001',
    signal_agent_segment_id: signal?.signal_agent_segment_id,
    pricing_option_id: signal?.pricing_options[0]?.pricing_option_id,
    destinations: [{ type: 'platform', platform: 'the-trade-desk' }],
  })
  t.notOk(activated.adcp_error, JSON.stringify(activated.adcp_error))

  const servers = spans.filter(({ kind }) => kind === SpanKind.SERVER)
  t.equal(servers.length, 2)
  await until('the answers have left', () => servers.every(({ ended }) => ended))
  for (const { name, spanContext, parentSpanId, attributes, failed } of servers) {
    t.equal(name, 'POST /mcp')
    t.equal(spanContext.traceId, TRACE)
    t.equal(parentSpanId, SPAN)
    t.equal(attributes['http.response.status_code'], 200)
    t.notOk(failed)
  }
  const activation = servers[1]
  const client = spans.find(({ parentSpanId }) => parentSpanId === activation?.spanContext.spanId)
  t.match(client, { kind: SpanKind.CLIENT, ended: true, attributes: { 'http.response.status_code': 200 } })
  const request = seen.find(({ task }) => task === 'activate_signal')
  t.equal(request?.traceparent, `00-${TRACE}-${client?.spanContext.spanId}-01`, 'the context is passed on')

  const refresh = seen.find(({ task }) => task === 'get_signals')
  t.ok(
    refresh?.traceparent && !refresh.traceparent.includes(TRACE),
    'what we do of our own accord is a trace of its own',
  )
  t.notMatch(JSON.stringify(spans), /buyer-key/, 'no secret is in a span')
})
