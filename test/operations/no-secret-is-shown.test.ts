/** Secrets planted in an upstream's url, in its credential and in what it says are in nothing that anybody is shown. */
import { hash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'tap'
import { createLog } from '../../src/commands/serve.js'
import { startFederation } from '../../src/composition/federation.js'
import { parseConfig } from '../../src/config/load.js'
import { systemClock } from '../../src/net/clock.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { until } from '../support/upstream-world.js'

const IN_URL = 'planted-9f31-in-url'
const IN_AUTH = 'planted-77aa-in-auth'
const OPERATOR = 'operator-key'

const row = (url: string) => ({
  signal_agent_segment_id: 'seg_1',
  name: 'Coffee drinkers',
  description: 'People who drink coffee',
  signal_type: 'owned',
  signal_ref: { scope: 'signal_source', signal_source_url: url, signal_id: 'coffee' },
  data_provider: 'Seller',
  coverage_percentage: 5,
  deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: false }],
  pricing_options: [{ pricing_option_id: 'p1', model: 'cpm', cpm: 1, currency: 'USD' }],
})

/** What the console tells an operator. */
const CONSOLE = [
  'signals',
  'facets',
  'overview',
  'upstreams',
  'providers',
  'callers',
  'audit',
  'activity',
  'signal?id=USD',
]

test('planted secrets are in no answer, page, metric or log line', async (t) => {
  const good = await startMcpAgent((task) =>
    task === 'get_adcp_capabilities'
      ? { adcp: { supported_versions: ['3.1'] }, signals: { discovery_modes: ['wholesale'] } }
      : {
          status: 'completed',
          cache_scope: 'public',
          wholesale_feed_version: 'v1',
          signals: [row(good.url)],
        },
  )
  const echoing = await startMcpAgent(() => ({
    status: 'failed',
    adcp_error: {
      code: 'AUTH_REQUIRED',
      message: `Wrong key ${IN_AUTH}, Bearer ${IN_AUTH}`,
      details: { token: IN_AUTH },
    },
  }))
  const folder = await mkdtemp(join(tmpdir(), 'tributary-secrets-'))
  const lines: string[] = []
  const file = {
    listen: { port: 0 },
    upstreams: [
      { url: `${good.url}?api_key=${IN_URL}` },
      { id: 'echoing', url: echoing.url, auth: { type: 'bearer', token: IN_AUTH } },
    ],
    defaults: { timeout: '60s' },
    egress: { allow_networks: ['127.0.0.0/8'] },
    callers: {
      anonymous: 'metadata',
      keys: [{ id: 'op', token_sha256: hash('sha256', OPERATOR, 'hex'), role: 'operator' }],
    },
    storage: { url: `file:${folder}` },
  }
  const federation = await startFederation({
    config: parseConfig('test', JSON.stringify(file), {}),
    version: '0.0.0',
    clock: systemClock,
    openAfterMs: 60_000,
    random: Math.random,
    log: createLog({ write: (line: string) => void lines.push(line) }),
  })
  t.teardown(async () => {
    await federation.close()
    await Promise.all([good.close(), echoing.close(), rm(folder, { recursive: true, force: true })])
  })
  await federation.ready
  const ids = () => federation.statuses().map(({ id }) => id)
  await until('the echoing agent has spoken', () =>
    federation.statuses().some(({ id, problem }) => id === 'echoing' && problem !== undefined),
  )
  const headers = { authorization: `Bearer ${OPERATOR}` }
  const get = async (path: string) =>
    `${path}: ${await (await fetch(federation.url + path, { headers })).text()}`
  const call = async (name: string, args: object, own: Record<string, string>) => {
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } }
    const reply = await fetch(`${federation.url}/mcp`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json', ...own },
      body: JSON.stringify(body),
    })
    return reply.text()
  }
  const wholesale = { discovery_mode: 'wholesale' }
  const page = await call('get_signals', wholesale, {})
  t.match(page, /Coffee drinkers/)
  const shown = [
    page,
    await call('get_signals', wholesale, headers),
    await call('get_signals', { signal_spec: 'coffee' }, headers),
    JSON.stringify([federation.statuses(), federation.url]),
    await get('/api/registry/agents?type=signals&health=true&capabilities=true'),
    ...(await Promise.all(ids().map((id) => get(`/explain?ref=${encodeURIComponent(id)}`)))),
    await get('/explain?ref=USD'),
    ...(await Promise.all(CONSOLE.map((path) => get(`/console/api/${path}`)))),
    await get('/metrics'),
    await get('/readyz'),
    JSON.stringify(await federation.contributions()),
    ...lines,
  ]
  for (const text of shown) {
    t.notOk(text.includes('planted'), text.slice(Math.max(0, text.indexOf('planted') - 200)).slice(0, 400))
  }
})

test('the level of the log is the configured one, and by default what people can read', (t) => {
  const levelOf = (isTTY: boolean, level?: string) => createLog({ isTTY, write: () => {} }, level).level
  t.equal(levelOf(false), 'info')
  t.equal(levelOf(true), 'warn', 'a person reads the start table there')
  t.equal(levelOf(true, 'debug'), 'debug')
  t.equal(levelOf(false, 'error'), 'error')
  t.end()
})

test('a log line tells an exception and no secret in it', (t) => {
  const lines: string[] = []
  const log = createLog({ write: (line: string) => void lines.push(line) })
  log.warn({ domain: 'a.example', error: new Error(`refused Bearer ${IN_AUTH}`) }, 'provider')
  log.warn({ message: `https://a.example/?api_key=${IN_URL}` }, 'upstreams')
  const [first] = lines
  t.match(JSON.parse(first ?? ''), { error: { type: 'Error', message: /^refused Bearer/, stack: String } })
  t.notMatch(lines.join(''), /planted/)
  t.end()
})
