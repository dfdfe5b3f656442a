import { type Test, test } from 'tap'
import { DEFAULT_RETENTION } from '../../src/store/retention.js'
import { activateSignal } from '../../src/tasks/activate-signal.js'
import { getTaskStatus } from '../../src/tasks/get-task-status.js'
import { listAccounts } from '../../src/tasks/list-accounts.js'
import { listTasks } from '../../src/tasks/list-tasks.js'
import { reportUsage } from '../../src/tasks/report-usage.js'
import { syncAccounts } from '../../src/tasks/sync-accounts.js'
import { adcpSchema, SCHEMAS_ABSENT } from '../support/adcp-schema.js'
import { BUYER_TOKEN, OTHER_TOKEN, sha256, startServer } from '../support/server-fixture.js'
import { SECRET } from './support/asked.js'
import { TRADE_DESK } from './support/parts.js'
import { paused } from './support/paused.js'
import { asks, type Choice, first, key, startWorld, type World } from './support/world.js'

type Fields = ReturnType<typeof JSON.parse>
type Call = (task: string, args: object, token?: string) => Promise<Fields>

const RESPONSES: Record<string, string> = {
  activate_signal: 'signals/activate-signal-response.json',
  report_usage: 'account/report-usage-response.json',
  get_task_status: 'protocol/get-task-status-response.json',
  list_tasks: 'protocol/list-tasks-response.json',
  list_accounts: 'account/list-accounts-response.json',
  sync_accounts: 'account/sync-accounts-response.json',
}

async function serve(t: Test, world: World) {
  const { activation, feed, upstreams } = world
  const accounts = { acc_1: { northwind: { account_id: 'nw_77' } } }
  const server = await startServer(t, {
    feed,
    upstreams,
    replayTtlSeconds: DEFAULT_RETENTION.answersMs / 1_000,
    tasks: [
      activateSignal(activation),
      reportUsage(activation),
      getTaskStatus(activation),
      listTasks({ ...activation, secret: SECRET }),
      listAccounts({ ...activation, secret: SECRET }),
      syncAccounts({ ...activation, subscribing: paused(activation.store) }),
    ],
    callers: {
      anonymous: 'metadata',
      keys: [
        {
          id: 'buyer',
          tokenSha256: sha256(BUYER_TOKEN),
          role: 'buyer',
          destinations: [TRADE_DESK],
          accounts,
        },
        { id: 'other', tokenSha256: sha256(OTHER_TOKEN), role: 'buyer' },
      ],
    },
  })
  const headers = (token: string, more: object) => ({ authorization: `Bearer ${token}`, ...more })
  const overMcp: Call = async (name, args, token = BUYER_TOKEN) => {
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } }
    const reply = await server.post('/mcp', body, headers(token, { 'mcp-protocol-version': '2025-06-18' }))
    return reply.json.result.structuredContent
  }
  const overA2a: Call = async (skill, input, token = BUYER_TOKEN) => {
    const message = { messageId: key(), role: 'ROLE_USER', parts: [{ data: { skill, input } }] }
    const body = { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } }
    const reply = await server.post('/a2a', body, headers(token, { 'a2a-version': '1.0' }))
    return reply.json.result.task.artifacts[0].parts.findLast((part: Fields) => part.data).data
  }
  return { overMcp, overA2a }
}

const validators = new Map<string, ReturnType<typeof adcpSchema>>()

function validatorOf(task: string): ReturnType<typeof adcpSchema> {
  const known = validators.get(task) ?? adcpSchema(RESPONSES[task] ?? task)
  validators.set(task, known)
  return known
}

/** The same calls, each answer held against the protocol's schema. */
function checked(t: Test, call: Call): Call {
  if (SCHEMAS_ABSENT) return call
  return async (task, args, token) => {
    const fields = await call(task, args, token)
    const validate = validatorOf(task)
    t.ok(validate(fields), `${task} answers by its schema`, { found: validate.errors ?? [] })
    return fields
  }
}

async function livesThrough(t: Test, call: Call, choice: Choice) {
  const copied = [{ ...TRADE_DESK, account: null }] // as a deployment says that it has none
  const request = { ...asks(choice), destinations: copied, idempotency_key: key(), context: { mine: 'é' } }
  let answer = await call('activate_signal', request)
  t.match(answer, { context: { mine: 'é' }, context_id: String, adcp_version: '3.1', replayed: undefined })
  const { task_id: taskId } = answer
  if (answer.status === 'submitted') {
    for (let left = 200; left > 0 && !['completed', 'failed'].includes(answer.status); left -= 1) {
      await new Promise((resolve) => setTimeout(resolve, 50))
      answer = await call('get_task_status', { task_id: taskId, include_result: true, include_history: true })
    }
    t.match(answer, { task_id: taskId, task_type: 'activate_signal', protocol: 'signals' })
    const { signal_agent_segment_id, pricing_option_id } = asks(choice)
    t.match(answer.history, [
      { type: 'request', data: { action: 'activate', signal_agent_segment_id, pricing_option_id } },
      { type: 'response', data: { status: 'submitted', task_id: taskId } },
      { type: 'response', data: { status: 'completed', result: answer.result } },
    ])
    t.match(await call('list_tasks', { include_history: true }), { tasks: [{ history: answer.history }] })
    t.notOk('history' in (await call('get_task_status', { task_id: taskId })), 'only when it is asked for')
    answer = { status: answer.status, ...answer.result }
  }
  const live = [{ ...TRADE_DESK, is_live: true, activation_key: { type: /./ } }]
  t.match(answer, { status: 'completed', deployments: live })
  t.match(await call('activate_signal', request), { replayed: true, task_id: taskId })

  const off = { action: 'deactivate', signal_agent_segment_id: choice.signal, destinations: copied }
  const gone = await call('activate_signal', { ...off, idempotency_key: key() })
  t.match(gone, { deployments: [{ ...TRADE_DESK, is_live: false }] })
  t.notMatch(JSON.stringify(gone), /activation_key/)
}

for (const transport of ['overMcp', 'overA2a'] as const) {
  test(`activate, poll, see it live, deactivate (${transport})`, async (t) => {
    const world = await startWorld(t, { agents: ['northwind', 'meridian', 'harborlight'] })
    const call = checked(t, (await serve(t, world))[transport])
    await livesThrough(t, call, first(world.choices('northwind')))
    await livesThrough(t, call, first(world.choices('meridian')))
  })
}

test('every task answers by its schema, errors too', { skip: SCHEMAS_ABSENT }, async (t) => {
  const world = await startWorld(t)
  const { overMcp } = await serve(t, world)
  const call = checked(t, overMcp)
  const choice = first(world.choices('meridian'))
  const brand = { domain: 'acme.example' }
  await call('sync_accounts', {
    idempotency_key: key(),
    accounts: [
      { brand, operator: 'agency.example', billing: 'operator', payment_terms: 'net_30' },
      { brand, operator: 'other.example', billing: 'advertiser' },
      {
        account: { account_id: 'acc_1' },
        notification_configs: [
          { subscriber_id: 's', url: 'https://h.example/x', event_types: ['signal.priced'], active: false },
        ],
      },
      { account: { account_id: 'acc_none' } },
    ],
  })
  t.equal((await call('list_accounts', {})).accounts.length, 2)
  await call('activate_signal', { ...asks(choice), idempotency_key: key() })
  t.match(await call('list_tasks', { filters: { statuses: ['submitted'] } }), {
    tasks: [{ task_type: 'activate_signal', domain: 'signals' }],
    query_summary: { total_matching: 1 },
  })
  const usage = [
    {
      account: { account_id: 'acc_1' },
      signal_agent_segment_id: choice.signal,
      pricing_option_id: choice.option,
    },
    { account: { account_id: 'acc_1' }, signal_agent_segment_id: 'sig_AAAAAAAAAAAAAAAAAAAAAA' },
  ].map((row) => ({ ...row, vendor_cost: 1, currency: 'USD' }))
  const reporting_period = { start: '2026-03-01T00:00:00Z', end: '2026-03-31T00:00:00Z' }
  t.match(await call('report_usage', { idempotency_key: key(), reporting_period, usage }), {
    status: 'completed',
    accepted: 1,
    errors: [{ field: 'usage[1].signal_agent_segment_id' }],
  })
  const refused = await call('activate_signal', {
    ...asks(choice),
    pricing_option_id: 'x',
    idempotency_key: key(),
  })
  t.match(refused, { status: 'failed', adcp_error: { code: 'REFERENCE_NOT_FOUND' }, errors: [{}] })
  const { idempotency_key: _, ...keyless } = { ...asks(choice), idempotency_key: key() }
  for (const idempotency_key of [undefined, 'short', 'with spaces in the key', 'k'.repeat(256)]) {
    t.match(await overMcp('activate_signal', { ...keyless, idempotency_key }), {
      status: 'failed',
      adcp_error: { code: 'INVALID_REQUEST', field: 'idempotency_key' },
    })
  }
  t.equal(world.sandbox.agents.meridian.activations(), 1)
})

test('a failed task is told as failed, with why', async (t) => {
  const world = await startWorld(t)
  const { overMcp } = await serve(t, world)
  await world.store.tasks.create({
    id: 'task_1',
    caller: 'buyer',
    type: 'get_signals',
    status: 'working',
    request: {},
  })
  await world.store.tasks.progress('task_1', {
    status: 'failed',
    error: { code: 'INVALID_REQUEST', message: 'no' },
  })
  t.match(await checked(t, overMcp)('get_task_status', { task_id: 'task_1' }), {
    status: 'failed',
    task_type: 'get_signals',
    error: { code: 'INVALID_REQUEST' },
    completed_at: String,
  })
})
