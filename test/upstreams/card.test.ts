import { test } from 'tap'
import type { Send } from '../../src/net/send.js'
import { createA2aAgent, findCard } from '../../src/upstreams/agent/a2a.js'
import { startHttp } from '../support/upstream-agent.js'
import { loopbackEgress } from '../support/upstream-world.js'

const AGENT = 'https://signals.a.example/a2a'
const card = (more: Record<string, unknown>) => ({ name: 'agent', ...more })

/** The endpoints of the agent when this is at every place where its card may be; undefined when it is no card. */
async function endpointsOf(value: unknown) {
  const body = Buffer.from(JSON.stringify(value) ?? '')
  const send: Send = async ({ url }) => ({ kind: 'reply', status: 200, headers: {}, body, url })
  const found = await findCard({ send, url: AGENT, auth: { type: 'none' } }, { timeoutMs: 60_000 })
  return found.kind === 'card' ? found.endpoints : undefined
}

test('a card gives its endpoints, the newest version first', async (t) => {
  const both = card({
    url: 'https://signals.a.example/old',
    protocolVersion: '0.3.0',
    supportedInterfaces: [
      { url: 'https://signals.a.example/grpc', protocolBinding: 'GRPC', protocolVersion: '1.0' },
      { url: '/new', protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
    ],
  })
  t.same(await endpointsOf(both), [
    { url: 'https://signals.a.example/new', version: '1.0' },
    { url: 'https://signals.a.example/old', version: '0.3' },
  ])
  t.same(
    await endpointsOf(card({ url: AGENT })),
    [{ url: AGENT, version: '0.3' }],
    'without a version it is the older',
  )
})

test('a card that names another site, or leaves https, is not followed there', async (t) => {
  for (const url of [
    'https://evil.example/a2a',
    'http://signals.a.example/a2a',
    'http://169.254.169.254/',
    'http://localhost:1/a2a',
    'nonsense://x',
  ]) {
    t.same(await endpointsOf(card({ url })), [{ url: AGENT, version: '0.3' }], url)
  }
  t.same(
    (await endpointsOf(card({ url: 'https://agents.a.example/' })))?.[0]?.url,
    'https://agents.a.example/',
  )
})

test('a credential is sent to the origin of the configured url alone', async (t) => {
  for (const [named, withCredential, without] of [
    ['https://signals.a.example/other', 'https://signals.a.example/other', 'https://signals.a.example/other'],
    ['https://agents.a.example/a2a', AGENT, 'https://agents.a.example/a2a'],
    ['https://signals.a.example:8444/a2a', AGENT, 'https://signals.a.example:8444/a2a'],
    ['http://signals.a.example/a2a', AGENT, AGENT],
    ['https://evil.example/a2a', AGENT, AGENT],
  ] as const) {
    for (const auth of [
      { type: 'bearer', token: 'secret' },
      { type: 'header', name: 'x-key', value: 'secret' },
      { type: 'none' },
    ] as const) {
      const posted: string[] = []
      const agent = createA2aAgent({
        url: AGENT,
        auth,
        async send({ url, method }) {
          if (method === 'POST') posted.push(url)
          const body = Buffer.from(JSON.stringify(card({ url: named })))
          return { kind: 'reply', status: 200, headers: {}, body, url }
        },
      })
      await agent.call('activate_signal', {}, { timeoutMs: 60_000 })
      t.same(posted, [auth.type === 'none' ? without : withCredential], `${named}, ${auth.type}`)
    }
  }
})

test('what is no card is none', async (t) => {
  for (const value of [undefined, null, [], 'x', {}, { name: 'x' }, { error: 'no' }])
    t.equal(await endpointsOf(value), undefined)
})

test('a card is looked for beside the url, then at the root; only when every place has none there is none', async (t) => {
  const places = [
    '/agents/a/.well-known/agent.json',
    '/agents/a/.well-known/agent-card.json',
    '/.well-known/agent.json',
    '/.well-known/agent-card.json',
  ]
  const { send } = loopbackEgress(t)
  for (const [at, status] of [
    [0, 404],
    [1, 404],
    [2, 404],
    [3, 404],
    [3, 503],
    [3, 401],
    [-1, 404],
    [-1, 401],
    [-1, 503],
  ] as const) {
    const asked: string[] = []
    const server = await startHttp((request, response) => {
      asked.push(request.url ?? '')
      const isThere = request.url === places[at]
      response.writeHead(isThere ? 200 : status, { 'content-type': 'application/json' })
      response.end(
        JSON.stringify(isThere ? card({ url: '/agents/a', protocolVersion: '0.3.0' }) : { name: 'x' }),
      )
    }, '/agents/a')
    t.teardown(server.close)
    const found = await findCard({ send, url: server.url, auth: { type: 'none' } }, { timeoutMs: 60_000 })
    t.same(asked, at < 0 ? places : places.slice(0, at + 1))
    if (at >= 0) t.match(found, { kind: 'card', endpoints: [{ url: server.url, version: '0.3' }] })
    else if (status === 404) t.same(found, { kind: 'none' })
    else t.match(found, { kind: 'failed', message: new RegExp(`agent card: HTTP ${status}`) })
  }
})
