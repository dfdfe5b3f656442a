import { test } from 'tap'
import { withoutSecrets } from '../../src/upstreams/agent/agent.js'
import { readMessages } from '../../src/upstreams/agent/answer.js'
import { dialectOf } from '../../src/upstreams/agent/dialect.js'
import { slabRow } from '../../src/upstreams/rows/slab.js'
import { readJson, startHttp } from '../support/upstream-agent.js'
import { configOf, openUpstreams, row, until, urlOf } from '../support/upstream-world.js'

const TOKEN = 'north-4f9a1c77'
const KEY = 'sk-url-998877'

/** An agent that repeats what it is shown, in its errors or in its rows. */
async function startEcho(
  t: { teardown(task: () => unknown): void },
  place: 'error' | 'rows' | 'errors beside an answer',
) {
  const agent = await startHttp(async (request, response) => {
    const { id, method, params } = (await readJson(request)) as {
      id?: number
      method: string
      params?: { name?: string }
    }
    const seen = `${request.headers.authorization} at ${request.url}`
    response.writeHead(200, { 'content-type': 'application/json' })
    const answer = (result: unknown) => void response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
    if (method === 'initialize') return answer({ protocolVersion: '2025-06-18', capabilities: {} })
    if (params?.name !== 'get_signals')
      return answer({ structuredContent: { adcp: { major_versions: [3] } } })
    if (place === 'rows') {
      return answer({ structuredContent: { signals: [row(1), row(2, { description: seen }), row(3)] } })
    }
    if (place !== 'error') {
      return answer({ structuredContent: { deployments: [], errors: [{ code: TOKEN, message: seen }] } })
    }
    const adcp_error = { code: 'AUTH_INVALID', message: `no such key: ${seen}`, details: { seen, [seen]: 1 } }
    return answer({ isError: true, structuredContent: { adcp_error } })
  })
  t.teardown(agent.close)
  return agent
}

test('an agent that repeats our credential in an error is quoted without it', async (t) => {
  const agent = await startEcho(t, 'error')
  const auth = { type: 'bearer', token: TOKEN } as const
  const { upstreams } = await openUpstreams(
    t,
    configOf([{ id: 'a', url: `${agent.url}?api_key=${KEY}`, auth }]),
  )
  await upstreams.start()
  await until('it failed', () => upstreams.statuses()[0]?.problem !== undefined)
  const called = await upstreams.call(
    urlOf(upstreams, 'a'),
    'get_signals',
    {},
    { deadline: Date.now() + 60_000 },
  )
  const told = JSON.stringify([upstreams.statuses()[0]?.problem, called])
  t.match(told, /\[secret\]/)
  t.notMatch(told, TOKEN)
  t.notMatch(told, KEY)
  t.notMatch(upstreams.roster().entries[0]?.agentUrl, KEY)
})

test('nor does what is said of a failure hold it', (t) => {
  const failed = { kind: 'failed', reason: 'protocol_error', message: `it leads to /mcp/${TOKEN}` } as const
  t.strictSame(
    withoutSecrets(failed, () => [TOKEN]),
    { ...failed, message: 'it leads to /mcp/[secret]' },
  )
  t.end()
})

test('nor do the words of an answer that says that it failed, which is kept beside its error', (t) => {
  const said = { code: 'X', message: `no entry for ${TOKEN}` }
  const deployments = [{ type: 'platform', platform: 'dv360', is_live: true }]
  const told = { adcp_error: said, errors: [said], error: said, message: said.message, deployments }
  const message = Buffer.from(JSON.stringify({ id: 1, result: { isError: true, structuredContent: told } }))
  const read = readMessages({ messages: [message], id: 1, as: 'mcp', bounds: { secrets: [TOKEN] } })
  const clean = read.kind === 'answer' && withoutSecrets(read.outcome, () => [TOKEN])
  t.notMatch(JSON.stringify(clean), TOKEN)
  t.match(clean, { kind: 'error', error: { code: 'X' }, payload: { errors: [{ code: 'X' }], deployments } })
  t.end()
})

test('nor does what is kept of capabilities hold it', (t) => {
  const seen = `at ${TOKEN}`
  const told = {
    ...{ adcp: { supported_versions: ['3.1', seen] }, supported_protocols: ['media', seen] },
    ...{ signals: { data_provider_domains: [seen, 'a.example'] }, webhook_signing: { supported: true } },
    ...{ request_signing: { supported: true, supported_for: [seen] } },
    wholesale_feed_webhooks: { supported: true, event_types: [seen] },
    identity: { brand_json_url: `https://a.example/${TOKEN}` },
  }
  const message = Buffer.from(JSON.stringify({ id: 1, result: { structuredContent: told } }))
  const read = readMessages({ messages: [message], id: 1, as: 'mcp', bounds: { secrets: [TOKEN] } })
  if (read.kind !== 'answer') throw new Error(read.kind)
  const dialect = dialectOf(read.outcome)
  t.match(dialect, { release: 'current', providerDomains: ['at [secret]', 'a.example'] })
  t.match(dialect, { feedEvents: {}, signing: {}, offers: ['media', 'at [secret]'] })
  t.notMatch(JSON.stringify(dialect), TOKEN)
  t.end()
})

test('errors beside an answer are held without it too', async (t) => {
  const agent = await startEcho(t, 'errors beside an answer')
  const auth = { type: 'bearer', token: TOKEN } as const
  const { upstreams } = await openUpstreams(
    t,
    configOf([{ id: 'a', url: `${agent.url}?api_key=${KEY}`, auth }]),
  )
  await upstreams.start()
  const called = JSON.stringify(
    await upstreams.call(urlOf(upstreams, 'a'), 'get_signals', {}, { deadline: Date.now() + 60_000 }),
  )
  t.match(called, /"code":"\[secret\]"/)
  t.notMatch(called, TOKEN)
  t.notMatch(called, KEY)
})

test('a row that repeats our credential is refused, and the others are kept', async (t) => {
  const agent = await startEcho(t, 'rows')
  const auth = { type: 'header', name: 'authorization', value: `Basic ${TOKEN}` } as const
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url, auth }]))
  await upstreams.start()
  await until('a slice', () => upstreams.slices().length === 1)
  const [slice] = upstreams.slices()
  t.equal(slice?.rows.count, 2)
  t.same(slice?.dropped, { holds_secret: 1 })
  t.notMatch(slice && Buffer.from(slabRow(slice.rows, 1)).toString(), TOKEN)
})

test('a row is refused for our credential in whatever spelling it repeats it', async (t) => {
  const key = 'sk/url+"998877'
  const agents = [
    { id: 'in-json', auth: { type: 'bearer', token: 'north"4f9a\\1c77' } as const, query: '' },
    { id: 'in-the-url', auth: undefined, query: `?api_key=${encodeURIComponent(key)}` },
  ]
  for (const { id, auth, query } of agents) {
    const { url } = await startEcho(t, 'rows')
    const { upstreams } = await openUpstreams(
      t,
      configOf([{ id, url: `${url}${query}`, ...(auth && { auth }) }]),
    )
    await upstreams.start()
    await until('a slice', () => upstreams.slices().length === 1)
    t.same(upstreams.slices()[0]?.dropped, { holds_secret: 1 }, id)
  }
})
