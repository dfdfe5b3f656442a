import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import { test } from 'tap'
import type { Resolve } from '../../src/net/addresses.js'
import { createEgress } from '../../src/net/egress.js'
import type { Budget } from '../../src/upstreams/agent/agent.js'
import { createMcpAgent } from '../../src/upstreams/agent/mcp.js'
import { readJson, startHttp } from '../support/upstream-agent.js'
import { startPollingAgent } from '../support/upstream-polling.js'
import { configOf, openUpstreams, until, urlOf } from '../support/upstream-world.js'

type Test = { teardown(task: () => unknown): void }
type Reply = (response: ServerResponse, rpcId: number) => void

const LONG = 60_000
const opened = { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 'x', version: '1' } }
const done = { content: [], structuredContent: { status: 'completed', signals: [] } }
const message = (id: number, result: object) => JSON.stringify({ jsonrpc: '2.0', id, result })

/** Events of a stream that then ends as it should. */
const events =
  (...blocks: string[]): Reply =>
  (response) =>
    void stream(response).end(blocks.map((block) => `${block}\n\n`).join(''))

const stream = (response: ServerResponse) =>
  response.writeHead(200, { 'content-type': 'text/event-stream', connection: 'close' })

const answer: Reply = (response, id) => void stream(response).end(`id: z\ndata: ${message(id, done)}\n\n`)
const refuse =
  (status: number): Reply =>
  (response) =>
    void response.writeHead(status).end()

/** An agent whose tool calls are answered by `onCall`, and whose GETs are answered by `onGet`, one after the other. */
async function agentThat(t: Test, { onCall, onGet }: { onCall: Reply; onGet: Reply[] }, resolve?: Resolve) {
  const gets: { headers: IncomingHttpHeaders; at: number }[] = []
  let calls = 0
  let rpcId = 0
  const server = await startHttp(async (request, response) => {
    if (request.method === 'GET') {
      gets.push({ headers: request.headers, at: Date.now() })
      return (onGet[gets.length - 1] ?? onGet.at(-1) ?? refuse(405))(response, rpcId)
    }
    const { id, method } = (await readJson(request)) as { id?: number; method: string }
    if (id === undefined) return void response.writeHead(202).end()
    if (method === 'initialize') {
      response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's-1' })
      return void response.end(message(id, opened))
    }
    calls += 1
    rpcId = id
    onCall(response, id)
  })
  t.teardown(server.close)
  const egress = createEgress({
    policy: { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: {} },
    ...(resolve && { resolve }),
  })
  t.teardown(() => egress.close())
  const url = resolve ? server.url.replace('127.0.0.1', 'moving.example') : server.url
  const agent = createMcpAgent({ send: egress.send, url, auth: { type: 'bearer', token: 'secret' } })
  return {
    gets,
    calls: () => calls,
    call: (budget: Partial<Budget> = {}) => agent.call('activate_signal', {}, { timeoutMs: LONG, ...budget }),
  }
}

const primed = events('id: 1\nretry: 5\ndata:')

test('an agent that closes its streams on purpose is asked again until it answers, and acts once', async (t) => {
  const agent = await startPollingAgent({ workMs: 60, retryMs: 10 })
  t.teardown(agent.close)
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url, protocol: 'mcp' }]))
  await upstreams.start()
  const outcome = await upstreams.call(
    urlOf(upstreams, 'a'),
    'activate_signal',
    {},
    { deadline: Date.now() + LONG },
  )
  t.match(outcome, { kind: 'answer', payload: { status: 'completed', deployments: [] } })
  t.equal(agent.executed('activate_signal'), 1)
  t.ok(agent.resumed() > 0)
})

test('a stream is resumed behind its last event, in its session, with its credential, after the wait', async (t) => {
  const { call, gets, calls } = await agentThat(t, {
    onCall: events(
      'id: first\nretry: 80\ndata:',
      'id: second\ndata: {"jsonrpc":"2.0","method":"notifications/x"}',
      'data: {}',
    ),
    onGet: [answer],
  })
  const start = Date.now()
  t.match(await call(), { kind: 'answer', payload: { status: 'completed' } })
  t.equal(calls(), 1)
  t.match(gets, [
    {
      headers: {
        'last-event-id': 'second',
        'mcp-session-id': 's-1',
        'mcp-protocol-version': '2025-11-25',
        authorization: 'Bearer secret',
        accept: 'text/event-stream',
      },
    },
  ])
  t.ok((gets[0]?.at ?? 0) - start >= 78, 'as long as a timer is exact')
})

test('a stream that breaks in the middle of an event is resumed before that event', async (t) => {
  const { call, gets, calls } = await agentThat(t, {
    onCall: (response, id) =>
      void stream(response).write(
        `id: whole\nretry: 1\ndata:\n\nid: half\ndata: ${message(id, done).slice(0, 30)}`,
        () => response.destroy(),
      ),
    onGet: [answer],
  })
  t.match(await call(), { kind: 'answer' })
  t.equal(gets[0]?.headers['last-event-id'], 'whole')
  t.equal(calls(), 1)
})

test('a stream that is resumed may be closed or break again', async (t) => {
  const { call, gets } = await agentThat(t, {
    onCall: primed,
    onGet: [
      events('id: 2\ndata:'),
      events(': still working'),
      (response) => void stream(response).write('id: 3\ndata:\n\n', () => response.destroy()),
      refuse(503),
      answer,
    ],
  })
  t.match(await call(), { kind: 'answer' })
  t.same(
    gets.map(({ headers }) => headers['last-event-id']),
    ['1', '2', '2', '3', '3'],
  )
})

test('without an event id there is nothing to resume, and the failure is what it was', async (t) => {
  const cases: [string, Reply, string][] = [
    ['closed', events('data: {}'), 'protocol_error'],
    ['an id taken back', events('id: 1\ndata:', 'id\ndata:'), 'protocol_error'],
    ['an id that no header can carry', events('id: \u00e9\u4e16\ndata:'), 'protocol_error'],
    [
      'broken',
      (response) => void stream(response).write('data: {}\n\n', () => response.destroy()),
      'unreachable',
    ],
  ]
  for (const [what, onCall, reason] of cases) {
    const { call, gets } = await agentThat(t, { onCall, onGet: [answer] })
    t.match(await call(), { kind: 'failed', reason }, what)
    t.equal(gets.length, 0)
  }
})

test('an agent that refuses to resume is asked once, and the failure is what it was', async (t) => {
  for (const status of [400, 401, 404, 405]) {
    const { call, calls, gets } = await agentThat(t, { onCall: primed, onGet: [refuse(status)] })
    t.match(await call(), { kind: 'failed', reason: 'protocol_error' }, `${status}`)
    t.equal(gets.length, 1)
    t.equal(calls(), 1, 'the call is not repeated')
  }
})

test('an agent that is in trouble when it is asked to resume is asked three times', async (t) => {
  const { call, gets } = await agentThat(t, { onCall: primed, onGet: [refuse(503)] })
  t.match(await call(), { kind: 'failed', reason: 'protocol_error' })
  t.equal(gets.length, 3)
})

test('a resumed stream that never answers is a timeout within the budget', async (t) => {
  const silent: Reply = (response) => void stream(response).write(': waiting\n\n')
  const { call } = await agentThat(t, { onCall: primed, onGet: [silent] })
  t.match(await call({ timeoutMs: 1_000 }), { kind: 'failed', reason: 'timeout' })
})

test('a wait that is longer than the budget is not begun', async (t) => {
  const { call, gets } = await agentThat(t, { onCall: events('id: 1\nretry: 60000\ndata:'), onGet: [answer] })
  t.match(await call({ timeoutMs: 59_000 }), { kind: 'failed', reason: 'timeout', message: /asked again/ })
  t.equal(gets.length, 0)
})

test('an agent that closes every stream is given up after one hundred', async (t) => {
  const again = events('id: 1\nretry: 0\ndata:')
  const { call, gets } = await agentThat(t, { onCall: again, onGet: [again] })
  t.match(await call({ timeoutMs: LONG }), { kind: 'failed', reason: 'protocol_error' })
  t.equal(gets.length, 100)
})

test('a caller that gives up ends the wait', async (t) => {
  const { call, calls, gets } = await agentThat(t, {
    onCall: events('id: 1\nretry: 600000\ndata:'),
    onGet: [answer],
  })
  const hangUp = new AbortController()
  const pending = call({ timeoutMs: 900_000, signal: hangUp.signal })
  await until('the call', () => calls() === 1)
  hangUp.abort()
  t.match(await pending, { kind: 'failed', reason: 'aborted' })
  t.equal(gets.length, 0)
})

test('the egress guard looks at every stream that resumes', async (t) => {
  let moved = false
  const moving = await agentThat(
    t,
    {
      onCall(response, id) {
        moved = true
        primed(response, id)
      },
      onGet: [answer],
    },
    async () => [{ address: moved ? '10.0.0.1' : '127.0.0.1', family: 4 }],
  )
  t.match(await moving.call(), { kind: 'failed', reason: 'refused' })
  t.equal(moving.gets.length, 0)
  const location = 'http://169.254.169.254/latest/meta-data'
  const away = await agentThat(t, {
    onCall: primed,
    onGet: [(response) => void response.writeHead(307, { location }).end()],
  })
  t.match(await away.call(), { kind: 'failed', reason: 'protocol_error', message: /leaves the site/ })
})

test('the answer to the opening handshake may come that way too', async (t) => {
  const gets: IncomingHttpHeaders[] = []
  let initializeId = 0
  const server = await startHttp(async (request, response) => {
    if (request.method === 'GET') {
      gets.push(request.headers)
      return void stream(response).end(`data: ${message(initializeId, opened)}\n\n`)
    }
    const { id = 0, method } = (await readJson(request)) as { id?: number; method: string }
    if (method !== 'initialize') {
      const known = request.headers['mcp-session-id'] === 's-2'
      return void response
        .writeHead(known ? 200 : 404, { 'content-type': 'application/json' })
        .end(message(id, done))
    }
    initializeId = id
    response.setHeader('mcp-session-id', 's-2')
    primed(response, id)
  })
  t.teardown(server.close)
  const egress = createEgress({ policy: { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: {} } })
  t.teardown(() => egress.close())
  const agent = createMcpAgent({ send: egress.send, url: server.url, auth: { type: 'none' } })
  t.match(await agent.call('get_signals', {}, { timeoutMs: LONG }), { kind: 'answer' })
  t.match(gets, [{ 'mcp-session-id': 's-2', 'last-event-id': '1' }])
})

test('the stateless revision knows no resuming: a cut stream is a failure at once', async (t) => {
  let gets = 0
  const server = await startHttp(async (request, response) => {
    if (request.method === 'GET') {
      gets += 1
      return void response.writeHead(405).end()
    }
    const { id = 0, method } = (await readJson(request)) as { id?: number; method: string }
    if (method === 'initialize') return void response.writeHead(400).end('{}')
    if (method === 'tools/call') return primed(response, id)
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(message(id, { resultType: 'complete' }))
  })
  t.teardown(server.close)
  const egress = createEgress({ policy: { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: {} } })
  t.teardown(() => egress.close())
  const agent = createMcpAgent({ send: egress.send, url: server.url, auth: { type: 'none' } })
  t.match(await agent.call('get_signals', {}, { timeoutMs: LONG }), {
    kind: 'failed',
    reason: 'protocol_error',
  })
  t.equal(gets, 0)
})
