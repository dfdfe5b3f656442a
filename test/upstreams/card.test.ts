import { test } from 'tap'
import { createA2aAgent } from '../../src/upstreams/a2a.js'
import { readCard } from '../../src/upstreams/card.js'
import { readJson, startHttp } from '../support/upstream-agent.js'
import { loopbackEgress } from '../support/upstream-world.js'

const AGENT = 'https://signals.a.example/a2a'
const card = (more: Record<string, unknown>) => ({ name: 'agent', ...more })

test('a card gives its endpoints, the newest version first', async (t) => {
  const both = card({
    url: 'https://signals.a.example/old',
    protocolVersion: '0.3.0',
    supportedInterfaces: [
      { url: 'https://signals.a.example/grpc', protocolBinding: 'GRPC', protocolVersion: '1.0' },
      { url: '/new', protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
    ],
  })
  t.same(readCard(both, AGENT), [
    { url: 'https://signals.a.example/new', version: '1.0' },
    { url: 'https://signals.a.example/old', version: '0.3' },
  ])
  t.same(
    readCard(card({ url: AGENT }), AGENT),
    [{ url: AGENT, version: '0.3' }],
    'without a version it is the older',
  )
})

test('a card that names another site is not followed there', async (t) => {
  for (const url of [
    'https://evil.example/a2a',
    'http://169.254.169.254/',
    'http://localhost:1/a2a',
    'nonsense://x',
  ]) {
    t.same(readCard(card({ url }), AGENT), [{ url: AGENT, version: '0.3' }], url)
  }
  t.same(readCard(card({ url: 'https://agents.a.example/' }), AGENT)?.[0]?.url, 'https://agents.a.example/')
})

test('what is no card is none', async (t) => {
  for (const value of [undefined, null, [], 'x', {}, { name: 'x' }, { error: 'no' }])
    t.equal(readCard(value, AGENT), undefined)
})

test('a task that is still worked on is asked about until it is done', async (t) => {
  let polls = 0
  const done = {
    id: 't1',
    status: { state: 'TASK_STATE_COMPLETED' },
    artifacts: [{ parts: [{ text: 'done' }, { data: { status: 'completed', signals: [] } }] }],
  }
  const server = await startHttp(async (request, response) => {
    const { id, method } = (await readJson(request)) as { id: number; method: string }
    if (method === 'GetTask') polls += 1
    const pending = { task: { id: 't1', status: { state: 'TASK_STATE_WORKING' } } }
    const result = method === 'SendMessage' ? pending : polls < 2 ? pending.task : done
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
  }, '/a2a')
  t.teardown(server.close)
  const agent = createA2aAgent({
    send: loopbackEgress(t).send,
    url: server.url,
    auth: { type: 'none' },
    endpoints: [{ url: server.url, version: '1.0' }],
  })
  t.match(await agent.call('get_signals', {}, { timeoutMs: 5_000 }), {
    kind: 'answer',
    payload: { status: 'completed' },
  })
  t.equal(polls, 2)
  polls = -1_000
  t.match(await agent.call('get_signals', {}, { timeoutMs: 700 }), { kind: 'failed', reason: 'timeout' })
})
