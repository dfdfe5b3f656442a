/** What one process began with a caller goes on at any other on the same database: briefs, what they found, A2A tasks. */
import { hash } from 'node:crypto'
import pg from 'pg'
import { type Test, test } from 'tap'
import { NO_POSTGRES, shared } from '../store/support/storages.js'
import { type Running, replicasOver, type Said } from '../support/replicas.js'
import { until } from '../support/until.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'

const TOKENS = { buyer: 'a-buyer-key', other: 'another-buyer-key' }
const KEY = 'a storage key of the tests, long enough'
const IN_FEED = 30
const FOUND = 15
const KEYS = Object.entries(TOKENS).map(([id, token]) => ({ id, token_sha256: hash('sha256', token, 'hex') }))

const row = (segment: string, name: string) => ({
  ...{ signal_agent_segment_id: segment, name, description: 'People who drink coffee at home' },
  ...{ signal_type: 'owned', data_provider: 'A House', coverage_percentage: 10 },
  deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: true }],
  pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: 1, currency: 'USD' }],
})
const rowsOf = (count: number, word: string) =>
  Array.from({ length: count }, (_, at) => row(`${word}_${at}`, `Coffee ${word} ${at}`))

/** Two processes over one agent that shows some signals in its feed, and tells of others when it is asked. */
async function pair(t: Test) {
  const storage = await shared(t)
  const agent = wholesaleAgent(rowsOf(IN_FEED, 'listed'), 'v1')
  const activated: unknown[] = []
  const { url, close } = await startMcpAgent((task, args) => {
    if (task === 'activate_signal') {
      activated.push(args.signal_agent_segment_id)
      const [deployment] = row('', '').deployments
      return { status: 'completed', deployments: [{ ...deployment, is_live: true }] }
    }
    if (args.discovery_mode !== 'brief') return agent.handle(task, args)
    return { status: 'completed', signals: rowsOf(FOUND, 'found'), pagination: { has_more: false } }
  })
  t.teardown(close)
  const start = await replicasOver(t, [{ id: 'a', url, protocol: 'mcp' }], {
    callers: { anonymous: 'deny', keys: KEYS },
    storage: { url: storage?.url, key: KEY },
  })
  if (!start || !storage) return undefined
  const replicas = await Promise.all([start(), start()])
  for (const { wholesale } of replicas) await until(wholesale, ({ incomplete }) => incomplete === undefined)
  return { replicas: replicas as [Running, Running], url: storage.url, activated }
}

type Asked = { cursor?: string; token?: string; spec?: string }

async function post(url: string, token: string, body: object): Promise<Said> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      ...{ 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      ...{ 'mcp-protocol-version': '2025-06-18', authorization: `Bearer ${token}` },
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...body }),
  })
  return (await response.json()) as Said
}

async function brief({ federation }: Running, { cursor, token = TOKENS.buyer, spec }: Asked): Promise<Said> {
  const args = {
    ...{ adcp_version: '3.1', discovery_mode: 'brief', signal_spec: spec ?? 'people who drink coffee' },
    time_budget: { interval: 60, unit: 'seconds' }, // however busy the machine
    pagination: { max_results: 20, ...(cursor && { cursor }) },
  }
  const params = { name: 'get_signals', arguments: args }
  const { result } = await post(`${federation.url}/mcp`, token, { method: 'tools/call', params })
  return result.structuredContent
}

const handlesOf = ({ signals }: Said) =>
  signals.map(({ signal_agent_segment_id: handle }: Said) => handle) as string[]

test('further pages of a brief, and what it found beside the feed, are had at the other process', {
  skip: NO_POSTGRES,
}, async (t) => {
  const world = await pair(t)
  if (!world) return
  const [one, other] = world.replicas
  const first = await brief(one, {})
  const { cursor } = first.pagination
  const here = await brief(one, { cursor })
  const there = await brief(other, { cursor })
  t.same(there.signals, here.signals)
  t.same(there.ext, here.ext, 'with how well each fits')
  t.match(there.pagination, { total_count: IN_FEED + FOUND, has_more: true })
  const last = await brief(one, { cursor: there.pagination.cursor })
  const all = [first, there, last].flatMap(handlesOf)
  t.equal(new Set(all).size, IN_FEED + FOUND, 'a walk over both shows each signal once')

  const code = 'INVALID_REQUEST'
  t.match(await brief(other, { cursor, token: TOKENS.other }), { adcp_error: { code } }, 'nobody else`s')
  t.match(await brief(other, { cursor, spec: 'something else' }), { adcp_error: { code } })

  const beside = [first, there, last]
    .flatMap(({ signals }) => signals)
    .find(({ name }) => name.startsWith('Coffee found')) as Said
  const done = await other.call('activate_signal', {
    ...{ adcp_version: '3.1', idempotency_key: 'found-at-the-other-process' },
    signal_agent_segment_id: beside.signal_agent_segment_id,
    pricing_option_id: beside.pricing_options[0].pricing_option_id,
    destinations: [{ type: 'platform', platform: 'the-trade-desk' }],
  })
  t.equal(done.status, 'completed', JSON.stringify(done))
  t.same(world.activated, [`found_${beside.name.split(' ').at(-1)}`])
})

test('a task of A2A is read, listed, cancelled and continued at the other process, in both versions, by its owner only', {
  skip: NO_POSTGRES,
}, async (t) => {
  const world = await pair(t)
  if (!world) return
  const [one, other] = world.replicas
  const ask = ({ federation }: Running, method: string, params: object, token = TOKENS.buyer) =>
    post(`${federation.url}/a2a`, token, { method, params })
  const skill = { skill: 'get_signals', input: { adcp_version: '3.1', discovery_mode: 'wholesale' } }
  const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ data: skill }] }
  const sent = (await ask(one, 'SendMessage', { message })).result.task as Said
  const { id } = sent

  t.same((await ask(other, 'GetTask', { id })).result, (await ask(one, 'GetTask', { id })).result)
  t.match((await ask(other, 'tasks/get', { id })).result, {
    ...{ kind: 'task', id, contextId: sent.contextId, status: { state: 'completed' } },
    artifacts: [{ parts: [{ kind: 'data', data: { status: 'completed' } }, { kind: 'text' }] }],
  })
  const listed = await ask(other, 'ListTasks', {})
  t.same(
    listed.result.tasks.map((each: Said) => each.id),
    [id],
  )
  const ended = (await ask(one, 'CancelTask', { id })).error
  t.same((await ask(other, 'CancelTask', { id })).error, ended, 'it has ended, wherever that is asked')
  t.same((await ask(other, 'tasks/cancel', { id })).error.code, ended.code)
  const continued = { message: { ...message, taskId: id } }
  t.same(
    (await ask(other, 'SendMessage', continued)).error,
    (await ask(one, 'SendMessage', continued)).error,
    'and cannot be continued',
  )
  const push = { taskId: id, pushNotificationConfig: { url: 'https://buyer.example/' } }
  for (const at of [one, other]) {
    t.equal((await ask(at, 'tasks/pushNotificationConfig/set', push)).error.code, -32_003)
  }
  for (const method of ['GetTask', 'tasks/get']) {
    t.equal((await ask(other, method, { id }, TOKENS.other)).error.code, -32_001, 'of nobody else')
  }
  t.equal((await ask(other, 'ListTasks', {}, TOKENS.other)).result.tasks.length, 0)

  await one.close()
  t.equal((await ask(other, 'GetTask', { id })).result.id, id, 'it outlives the process that began it')

  const database = new pg.Client({ connectionString: world.url })
  await database.connect()
  const { rows } = await database.query('select bytes from shelf where bytes is not null')
  await database.end()
  t.ok(rows.length > 0)
  for (const { bytes } of rows) t.notMatch(bytes.toString('latin1'), /Coffee|context/, 'encrypted')
})
