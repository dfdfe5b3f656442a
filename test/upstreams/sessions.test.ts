import { test } from 'tap'
import { createMcpAgent } from '../../src/upstreams/agent/mcp.js'
import { statusFailure } from '../../src/upstreams/agent/rpc.js'
import { type RunningAgent, readJson, startHttp, startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { configOf, loopbackEgress, openUpstreams, rows, until, urlOf } from '../support/upstream-world.js'

type Message = { id?: number; method: string; params?: Record<string, unknown> }
type Reply = {
  status?: number
  headers?: Record<string, string>
  result?: unknown
  error?: unknown
  text?: string
}
type Test = { teardown(task: () => unknown): void }

/** A JSON-RPC server that answers each message as told, and remembers what it saw. */
async function scripted(t: Test, answer: (message: Message, headers: Record<string, unknown>) => Reply) {
  const seen: { method: string; headers: Record<string, unknown> }[] = []
  const server: RunningAgent = await startHttp(async (request, response) => {
    const message = (await readJson(request)) as Message
    seen.push({ method: message.method, headers: request.headers })
    const { status = 200, headers = {}, result, error, text } = answer(message, request.headers)
    response.writeHead(status, { 'content-type': 'application/json', ...headers })
    const body = JSON.stringify({ jsonrpc: '2.0', id: message.id, ...(error ? { error } : { result }) })
    response.end(text ?? body)
  })
  t.teardown(server.close)
  const agent = createMcpAgent({ send: loopbackEgress(t).send, url: server.url, auth: { type: 'none' } })
  return {
    seen,
    methods: () => seen.map(({ method }) => method),
    call: () => agent.call('get_signals', {}, { timeoutMs: 60_000 }),
    change: () => agent.call('activate_signal', {}, { timeoutMs: 60_000 }),
  }
}

const opened = { protocolVersion: '2025-03-26', capabilities: {}, serverInfo: { name: 'x', version: '1' } }
const done = { content: [], structuredContent: { status: 'completed', signals: [] } }

test('a lost session is opened once more and the call repeated, and the feed does not notice', async (t) => {
  const feed = wholesaleAgent(rows(10), 'v1')
  const agent = await startMcpAgent(feed.handle, { sessions: true, json: true })
  t.teardown(agent.close)
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }]))
  await upstreams.start()
  await until('a slice', () => upstreams.slices().length === 1)
  t.equal(agent.sessionsOpened(), 1)
  agent.forget()
  t.match(
    await upstreams.call(
      urlOf(upstreams, 'a'),
      'get_adcp_capabilities',
      {},
      { deadline: Date.now() + 60_000 },
    ),
    {
      kind: 'answer',
    },
  )
  t.equal(agent.sessionsOpened(), 2)
})

test('a session that is lost again and again is opened once a call, not for ever', async (t) => {
  const { call, methods } = await scripted(t, ({ method }) =>
    method === 'initialize'
      ? { headers: { 'mcp-session-id': 's' }, result: opened }
      : { status: 404, error: { code: -32001, message: 'gone' } },
  )
  t.match(await call(), { kind: 'error' })
  t.equal(methods().filter((method) => method === 'initialize').length, 2)
})

test('the session and the negotiated version go with every call', async (t) => {
  const { call, seen } = await scripted(t, ({ method }) =>
    method === 'initialize' ? { headers: { 'mcp-session-id': 's-1' }, result: opened } : { result: done },
  )
  t.match(await call(), { kind: 'answer' })
  t.match(seen.at(-1)?.headers, { 'mcp-session-id': 's-1', 'mcp-protocol-version': '2025-03-26' })
})

test('calls that lose their session together open one new session together, and each is answered', async (t) => {
  const agent = await startMcpAgent(wholesaleAgent(rows(10), 'v1').handle, { sessions: true, json: false })
  t.teardown(agent.close)
  const mcp = createMcpAgent({ send: loopbackEgress(t).send, url: agent.url, auth: { type: 'none' } })
  const call = () => mcp.call('get_adcp_capabilities', {}, { timeoutMs: 60_000 })
  const together = () => Promise.all(Array.from({ length: 20 }, call))
  for (const opened of [1, 2]) {
    for (const outcome of await together()) t.match(outcome, { kind: 'answer' })
    t.equal(agent.sessionsOpened(), opened)
    agent.forget()
  }
})

test('whichever revision the agent answers with is spoken from then on', async (t) => {
  for (const protocolVersion of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
    for (const type of ['application/json', 'text/event-stream']) {
      const { call, seen } = await scripted(t, ({ id, method }) => {
        const result = method === 'initialize' ? { ...opened, protocolVersion } : done
        const text = JSON.stringify({ jsonrpc: '2.0', id, result })
        if (type === 'application/json') return { text }
        return { headers: { 'content-type': type }, text: `event: message\ndata: ${text}\n\n` }
      })
      t.match(await call(), { kind: 'answer' }, `${protocolVersion} as ${type}`)
      t.equal(seen.at(-1)?.headers['mcp-protocol-version'], protocolVersion)
    }
  }
})

test('an agent of the stateless revision is found through server/discover', async (t) => {
  const { call, methods, seen } = await scripted(t, ({ method, params }, headers) => {
    if (method === 'initialize') return { status: 400, error: { code: -32601, message: 'no such method' } }
    const meta = params?._meta as Record<string, unknown> | undefined
    const speaksIt =
      headers['mcp-protocol-version'] === '2026-07-28' &&
      headers['mcp-method'] === method &&
      meta?.['io.modelcontextprotocol/protocolVersion'] === '2026-07-28'
    if (!speaksIt) return { status: 400, error: { code: -32600, message: 'bad request' } }
    return {
      result: method === 'server/discover' ? { resultType: 'complete' } : { ...done, resultType: 'complete' },
    }
  })
  t.match(await call(), { kind: 'answer' })
  t.same(methods(), ['initialize', 'server/discover', 'tools/call'])
  t.equal(seen.at(-1)?.headers['mcp-name'], 'get_signals')
})

test('an agent without any handshake is called as it is', async (t) => {
  const { call } = await scripted(t, ({ method }) => {
    if (method === 'tools/list') return { result: { tools: [] } }
    return method === 'tools/call'
      ? { result: { status: 'completed', signals: [] } }
      : { error: { code: -32601, message: 'no' } }
  })
  t.match(await call(), { kind: 'answer', payload: { status: 'completed' } })
})

test('a refused credential or a server in trouble is no verdict about the transport', async (t) => {
  for (const [status, reason] of [
    [401, 'unauthorized'],
    [403, 'unauthorized'],
    [429, 'rate_limited'],
    [500, 'server_error'],
    [503, 'server_error'],
  ] as const) {
    const { call, methods } = await scripted(t, () => ({
      status,
      error: { code: -32000, message: 'warming up' },
      text: '{"id":null}',
    }))
    t.match(await call(), { kind: 'failed', reason })
    t.same(methods(), ['initialize'], 'nothing else is tried')
  }
})

test('a status that says enough is not lost in the body behind it', async (t) => {
  const agent = await startHttp((_, response) => {
    response.writeHead(429, { 'retry-after': '20', 'content-length': '40000000' }).flushHeaders()
  })
  t.teardown(agent.close)
  const { send } = loopbackEgress(t)
  const { call } = createMcpAgent({ send, url: agent.url, auth: { type: 'none' } })
  const outcome = await call('get_signals', {}, { timeoutMs: 120_000 })
  t.match(outcome, { kind: 'failed', reason: 'rate_limited', retryAfterMs: 20_000 })
})

test('Retry-After is read as seconds and as a date, and is an hour at most', async (t) => {
  const now = Date.parse('2026-11-20T10:00:00Z')
  const wait = (value?: string) =>
    statusFailure({ status: 429, headers: value === undefined ? {} : { 'retry-after': value } }, now)
      ?.retryAfterMs
  t.equal(wait('7'), 7_000)
  t.equal(wait('Fri, 20 Nov 2026 10:00:30 GMT'), 30_000)
  t.equal(wait('Fri, 20 Nov 2026 09:00:00 GMT'), 0)
  t.equal(wait('999999999'), 3_600_000)
  t.equal(wait('9'.repeat(400)), 3_600_000)
  const zone = process.env.TZ
  process.env.TZ = 'America/New_York'
  t.equal(wait('Friday, 20-Nov-26 10:00:30 GMT'), 30_000, 'as HTTP once wrote dates')
  t.equal(wait('Fri Nov 20 10:00:30 2026'), 30_000, 'which are in Greenwich time, wherever we are')
  if (zone === undefined) delete process.env.TZ
  else process.env.TZ = zone
  const nothing = [
    '',
    'soon',
    '-5x',
    '-5',
    '+5',
    '1.5',
    '1e9',
    '5, 10',
    '2026-11-20',
    '20 Nov 2026 10:00:30 PST',
  ]
  for (const none of [undefined, ...nothing]) t.equal(wait(none), undefined, none ?? 'absent')
})

test('errors come in many shapes and each becomes one error with a code', async (t) => {
  const shapes: [Reply, string][] = [
    [
      {
        result: {
          isError: true,
          content: [],
          structuredContent: { adcp_error: { code: 'X', message: 'm' } },
        },
      },
      'X',
    ],
    [
      {
        result: {
          isError: true,
          content: [{ type: 'text', text: '{"adcp_error":{"code":"X","message":"m"}}' }],
        },
      },
      'X',
    ],
    [{ result: { isError: true, content: [{ type: 'text', text: 'Unknown tool' }] } }, 'TOOL_ERROR'],
    [
      {
        result: {
          content: [],
          structuredContent: { status: 'failed', errors: [{ code: 'X', message: 'm' }] },
        },
      },
      'X',
    ],
    [{ result: { status: 'failed', errors: [{ code: 'X', message: 'm' }] } }, 'X'],
    [{ error: { code: -32602, message: 'bad' } }, 'INVALID_REQUEST'],
    [{ error: { code: -32601, message: 'bad' } }, 'NOT_IMPLEMENTED'],
  ]
  for (const [reply, code] of shapes) {
    const { call } = await scripted(t, ({ method }) => (method === 'tools/call' ? reply : { result: opened }))
    t.match(await call(), { kind: 'error', error: { code } }, JSON.stringify(reply))
  }
})

test('what is no JSON-RPC answer has a word of its own, whatever its content type', async (t) => {
  for (const [type, text] of [
    ['text/html', '<html>'],
    ['application/json', '<html>'],
    ['application/json', '{"jsonrpc":"2.0","id":99999,"result":{}}'],
    ['text/event-stream', 'data: nonsense\n\n'],
    ['text/event-stream', '{"not":"a stream"}'],
  ]) {
    const { call } = await scripted(t, ({ method }) =>
      method === 'tools/call'
        ? { text: text as string, headers: { 'content-type': type as string } }
        : { result: opened },
    )
    t.match(await call(), { kind: 'failed', reason: 'protocol_error' }, `${type} ${text}`)
  }
})

test('one row that is not JSON costs a call its answer, and nothing else', async (t) => {
  const broken = '{"jsonrpc":"2.0","id":2,"result":{"other":{"signals":[{"a":nonsense}]}}}'
  const { call } = await scripted(t, ({ method }) =>
    method === 'tools/call' ? { text: broken } : { result: opened },
  )
  t.match(await call(), { kind: 'failed', reason: 'protocol_error' })
})

test('a task that changes something is sent once, whatever the agent says of the session', async (t) => {
  for (const status of [400, 404, 503]) {
    const { methods, change } = await scripted(t, ({ method }) =>
      method === 'initialize'
        ? { headers: { 'mcp-session-id': 's' }, result: opened }
        : { status, error: { code: -32000, message: 'gone' } },
    )
    await change()
    t.equal(methods().filter((method) => method === 'tools/call').length, 1, `HTTP ${status}`)
  }
})

test('a refused request is no lost session: a read is not repeated, and the next one opens a session', async (t) => {
  const { call, methods } = await scripted(t, ({ method }) =>
    method === 'initialize'
      ? { headers: { 'mcp-session-id': 's' }, result: opened }
      : { status: 400, error: { code: -32600, message: 'no' } },
  )
  await call()
  t.equal(methods().filter((method) => method === 'tools/call').length, 1)
  await call()
  t.equal(methods().filter((method) => method === 'initialize').length, 2)
})

test('an answer in wide characters is refused: JSON is UTF-8', async (t) => {
  const { call } = await scripted(t, ({ id, method }) => {
    const text = JSON.stringify({ jsonrpc: '2.0', id, result: method === 'initialize' ? opened : done })
    return method === 'initialize'
      ? { text }
      : { text, headers: { 'content-type': 'application/json; charset=utf-16' } }
  })
  t.match(await call(), { kind: 'failed', reason: 'protocol_error' })
})
