import type { IncomingMessage, ServerResponse } from 'node:http'
import { test } from 'tap'
import { probe } from '../../src/upstreams/walk/link.js'
import { readJson, startHttp } from '../support/upstream-agent.js'
import { configOf, loopbackEgress, openUpstreams, row, until } from '../support/upstream-world.js'

type Test = { teardown(task: () => unknown): void }
type Ask = { method: string; path: string; rpc?: string; id?: number }
type Answer = (ask: Ask, response: ServerResponse) => void

const none = { type: 'none' } as const
const json = (response: ServerResponse, status: number, body: unknown) =>
  void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))

const mcp: Answer = ({ method, id }, response) => {
  if (method !== 'POST') return void response.writeHead(405).end()
  if (id === undefined) return void response.writeHead(202).end()
  const result = { protocolVersion: '2025-06-18', capabilities: {}, serverInfo: { name: 'x', version: '1' } }
  json(response, 200, { jsonrpc: '2.0', id, result })
}

/** An A2A agent of brief mode only, that finds nothing: enough to be known as what it is. */
const a2a: Answer = ({ method, path, rpc, id }, response) => {
  if (path.endsWith('/.well-known/agent-card.json'))
    return json(response, 200, { name: 'x', url: '/', protocolVersion: '0.3.0' })
  if (method !== 'POST') return void response.writeHead(404).end()
  if (rpc !== 'message/send') {
    return json(response, 200, { jsonrpc: '2.0', id, error: { code: -32601, message: 'no such method' } })
  }
  const data = { status: 'completed', signals: [row(1)] }
  const result = {
    kind: 'task',
    id: 't',
    status: { state: 'completed' },
    artifacts: [{ parts: [{ kind: 'data', data }] }],
  }
  json(response, 200, { jsonrpc: '2.0', id, result })
}
const status =
  (code: number): Answer =>
  (_, response) =>
    json(response, code, { error: 'no' })
const silence: Answer = () => {}

/** A server that behaves as it is told at each request; `at` counts them. */
async function serving(t: Test, answerOf: (at: number) => Answer, path = '/agent') {
  const asked: Ask[] = []
  const server = await startHttp(async (request: IncomingMessage, response) => {
    const body = (request.method === 'POST' ? await readJson(request) : {}) as {
      method?: string
      id?: number
    }
    const ask: Ask = {
      method: request.method ?? '',
      path: request.url ?? '',
      ...(body.method && { rpc: body.method }),
      ...(body.id !== undefined && { id: body.id }),
    }
    asked.push(ask)
    answerOf(asked.length)(ask, response)
  }, path)
  t.teardown(server.close)
  return { url: server.url, asked }
}

const ask = (t: Test, url: string, timeoutMs = 30_000) =>
  probe({ send: loopbackEgress(t).send, url, auth: none }, undefined, { timeoutMs })

test('what answers as MCP is MCP, what has a card is A2A, and the url says which is tried first', async (t) => {
  for (const [answer, path, protocol, first] of [
    [mcp, '/mcp', 'mcp', 'POST'],
    [a2a, '/agent', 'a2a', 'POST'],
    [a2a, '/a2a', 'a2a', 'GET'],
    [a2a, '/a2a/', 'a2a', 'GET'],
    [mcp, '/a2a', 'mcp', 'GET'],
  ] as const) {
    const { url, asked } = await serving(t, () => answer, path)
    t.match(await ask(t, url), { kind: 'found', agent: { protocol } }, `${protocol} at ${path}`)
    t.equal(asked[0]?.method, first)
  }
})

test('with a protocol configured nothing is asked', async (t) => {
  for (const protocol of ['mcp', 'a2a'] as const) {
    const { url, asked } = await serving(t, () => silence)
    const found = await probe({ send: loopbackEgress(t).send, url, auth: none }, protocol, { timeoutMs: 100 })
    t.match(found, { kind: 'found', agent: { protocol } })
    t.equal(asked.length, 0)
  }
})

test('what is turned down, missing or redirected elsewhere is an answer, and the other transport is tried', async (t) => {
  const redirected: Answer = (ask, response) =>
    ask.method === 'POST'
      ? void response.writeHead(301, { location: '/elsewhere' }).end()
      : a2a(ask, response)
  const missing =
    (code: number): Answer =>
    (ask, response) =>
      ask.method === 'POST' ? status(code)(ask, response) : a2a(ask, response)
  for (const [what, answer] of [
    ['400', missing(400)],
    ['404', missing(404)],
    ['405', missing(405)],
    ['301', redirected],
  ] as const) {
    const { url } = await serving(t, () => answer)
    t.match(await ask(t, url), { kind: 'found', agent: { protocol: 'a2a' } }, what)
  }
})

test('nothing that speaks either is no agent, and the message says what each of them met', async (t) => {
  const { url } = await serving(t, () => status(404))
  t.match(await ask(t, url), {
    kind: 'failed',
    reason: 'not_an_agent',
    message: /HTTP 404 without a JSON-RPC answer; no agent card was found/,
  })
})

test('a refused credential, a server in trouble or silence is no verdict, for either transport', async (t) => {
  for (const path of ['/mcp', '/a2a']) {
    for (const [answer, reason] of [
      [status(401), 'unauthorized'],
      [status(403), 'unauthorized'],
      [status(500), 'server_error'],
      [status(503), 'server_error'],
      [status(429), 'rate_limited'],
      [silence, 'timeout'],
    ] as const) {
      const { url, asked } = await serving(t, () => answer, path)
      const timeoutMs = answer === silence ? 1_000 : undefined
      t.match(await ask(t, url, timeoutMs), { kind: 'failed', reason }, `${reason} at ${path}`)
      const methods = new Set(asked.map(({ method }) => method)) // none where a busy machine took the time
      t.ok(methods.size <= 1, 'the other transport is not tried')
    }
  }
})

test('no verdict is remembered: an agent that was in trouble is found for what it is', async (t) => {
  for (const trouble of [status(401), status(503), silence]) {
    const { url } = await serving(t, (at) => (at <= 2 ? trouble : a2a))
    const { upstreams } = await openUpstreams(
      t,
      configOf([{ id: 'a', url, seeds: ['anything'] }], { timeoutMs: 1_000, refreshMs: 50 }),
    )
    await upstreams.start()
    await until('its slice', () => upstreams.slices().length === 1)
    t.match(upstreams.statuses(), [{ protocol: 'a2a', state: 'fresh', listings: 1 }])
  }
})
