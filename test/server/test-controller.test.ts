/** comply_test_controller over HTTP: what it forces is seen by the ordinary tasks, for sandbox accounts of the caller alone. */
import { hash, randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { type Test, test } from 'tap'
import { startFederation } from '../../src/composition/federation.js'
import { parseConfig } from '../../src/config/load.js'
import { systemClock } from '../../src/net/clock.js'
import { startReceiver } from '../discovery/support/receiver.js'
import { callTool } from '../support/call-tool.js'
import { until } from '../support/upstream-world.js'

type Answer = ReturnType<typeof JSON.parse>

const account = { brand: { domain: 'novamotors.example' }, operator: 'agency.example', sandbox: true }
const other = { ...account, brand: { domain: 'other.example' } }

async function startDemo(t: Test) {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-controller-'))
  const keys = ['one', 'two'].map((id) => ({ id, token_sha256: hash('sha256', id, 'hex') }))
  const file = {
    ...{ listen: { port: 0 }, sandbox: true, test_controller: true, callers: { keys } },
    registries: [{ url: 'https://registry.signalcommons.example' }],
    egress: { webhook_networks: ['127.0.0.0/8'] },
    storage: { url: `file:${folder}` },
  }
  const federation = await startFederation({
    ...{ config: parseConfig('test', JSON.stringify(file), {}), sandboxSignals: 60, version: '0.0.0' },
    ...{ clock: systemClock, random: Math.random, openAfterMs: 60_000, log: pino({ level: 'silent' }) },
  })
  t.teardown(async () => {
    await federation.close()
    await rm(folder, { recursive: true, force: true })
  })
  await federation.ready
  const call = (task: string, input: object, as = 'one') => callTool<Answer>(federation.url, task, input, as)
  const force = (scenario: string, params: object = {}, as = 'one', on: object = account) =>
    call('comply_test_controller', { scenario, params, account: on }, as)
  return { call, force }
}

test('what a test forces is what callers see', async (t) => {
  const { call, force } = await startDemo(t)
  const receiver = await startReceiver(t)
  const id = 'task_async_signals_nova_ev'
  const brief = {
    ...{ account, signal_spec: 'EV buyers' },
    push_notification_config: {
      ...{ url: receiver.url, operation_id: 'op_terminal' },
      authentication: { schemes: ['Bearer'], credentials: 'a-secret-of-at-least-32-characters-000' },
    },
  }

  await t.test('it is declared, with what it can', async (t) => {
    const { compliance_testing: declared } = await call('get_adcp_capabilities', {})
    const { scenarios, success, status } = await force('list_scenarios')
    t.match({ success, status }, { success: true, status: 'completed' })
    t.same(declared, { scenarios })
  })

  await t.test('an armed brief is answered later, once, and a walk is not', async (t) => {
    t.match(await force('force_get_signals_arm', { arm: 'submitted', task_id: id, message: 'Queued.' }), {
      success: true,
      forced: { arm: 'submitted', task_id: id },
    })
    t.equal((await call('get_signals', { account, discovery_mode: 'wholesale' })).status, 'completed')
    t.equal((await call('get_signals', { account: other, signal_spec: 'EV buyers' })).status, 'completed')
    t.equal((await call('get_signals', { account, signal_spec: 'EV buyers' }, 'two')).status, 'completed')
    const submitted = await call('get_signals', brief)
    t.match(submitted, { status: 'submitted', task_id: id, message: 'Queued.' })
    t.notOk('signals' in submitted)
    t.equal((await call('get_signals', { account, signal_spec: 'EV buyers' })).status, 'completed', 'once')
  })

  await t.test('its task is seen for its account alone', async (t) => {
    const filters = { task_ids: [id], task_type: 'get_signals', has_webhook: true }
    t.match((await call('list_tasks', { account, filters })).tasks, [{ task_id: id, status: 'submitted' }])
    t.same((await call('list_tasks', { account: other, filters })).tasks, [])
    t.same((await call('list_tasks', { filters }, 'two')).tasks, [])
    t.match(await force('force_get_signals_arm', { arm: 'submitted', task_id: id }), {
      error: 'INVALID_STATE',
    })
  })

  await t.test('it ends with the result that is brought, and tells so', async (t) => {
    const result = {
      signals: [
        { name: 'Likely EV buyers', deployments: [{ type: 'platform', platform: 'x', is_live: false }] },
      ],
      ...{ cache_scope: 'public', context: { correlation_id: 'terminal' } },
    }
    const end = { task_id: id, result }
    t.match(await force('force_task_completion', end, 'one', other), { success: false, error: 'NOT_FOUND' })
    t.match(await force('force_task_completion', end, 'two'), { error: 'NOT_FOUND' })
    t.match(await force('force_task_completion', { ...end, result: { signals: [null] } }), {
      error: 'INVALID_PARAMS',
    })
    t.match(await force('force_task_completion', end), {
      previous_state: 'submitted',
      current_state: 'completed',
    })
    t.match(await force('force_task_completion', end), {
      error: 'INVALID_TRANSITION',
      current_state: 'completed',
    })
    const told = await call('get_task_status', { account, task_id: id, include_result: true })
    t.match(told, { status: 'completed', has_webhook: true })
    t.same(told.result, result)
    await until('the notice', () => receiver.received.length === 1)
    const body = JSON.parse(receiver.received[0]?.body ?? '')
    t.match(body, { task_id: id, operation_id: 'op_terminal', status: 'completed' })
    t.same(body.result, result)
    t.match(
      await force('force_get_signals_arm', { arm: 'submitted', task_id: id }),
      { success: true },
      'again',
    )
  })

  await t.test('the status of a sandbox account, and of no other', async (t) => {
    const declare = async (entry: object) => {
      const accounts = [{ ...entry, billing: 'operator' }]
      return (await call('sync_accounts', { idempotency_key: randomUUID(), accounts })).accounts[0].account_id
    }
    const mine = await declare(account)
    const { sandbox: _, ...real } = account
    const live = await declare(real)
    const status = (account_id: string, status: string) =>
      force('force_account_status', { account_id, status })
    t.match(await status(mine, 'suspended'), { previous_state: 'active', current_state: 'suspended' })
    const activation = {
      ...{ account, idempotency_key: randomUUID(), signal_agent_segment_id: 'x' },
      destinations: [{ type: 'platform', platform: 'x' }],
    }
    t.match(await call('activate_signal', activation), { adcp_error: { code: 'ACCOUNT_SUSPENDED' } })
    await declare(account)
    t.match(
      await call('list_accounts', { status: 'suspended' }),
      { accounts: [{ account_id: mine }] },
      'it stays',
    )
    t.match(await status(mine, 'payment_required'), { previous_state: 'suspended' })
    t.match(await call('activate_signal', activation), { adcp_error: { code: 'ACCOUNT_PAYMENT_REQUIRED' } })
    t.match(await status(mine, 'active'), { current_state: 'active' })
    t.match(await status(mine, 'asleep'), { error: 'INVALID_PARAMS' })
    t.match(await status(live, 'suspended'), { error: 'FORBIDDEN' })
    t.match(await status('acc_nobody', 'active'), { error: 'NOT_FOUND' })
    t.match(await force('list_scenarios', {}, 'one', { account_id: live, sandbox: true }), {
      error: 'FORBIDDEN',
    })
    t.match(await force('list_scenarios', {}, 'one', { account_id: mine }), { success: true })
    t.match(await status(mine, 'closed'), { current_state: 'closed' })
    t.match(await status(mine, 'active'), { error: 'INVALID_TRANSITION', current_state: 'closed' })
  })

  await t.test('a fixture makes an account, and the same one changes nothing', async (t) => {
    const seed = {
      account_id: 'acc_seeded',
      fixture: { brand: { domain: 'seed.example' }, operator: 'op.example' },
    }
    t.match(await force('seed_account', seed), { success: true })
    t.match(await force('seed_account', seed), { success: true, message: /already/ })
    t.match(await force('seed_account', { ...seed, fixture: { ...seed.fixture, billing: 'agent' } }), {
      error: 'INVALID_PARAMS',
    })
    t.match(await force('seed_account', { ...seed, account_id: 'acc_2' }), { error: 'INVALID_STATE' })
    const { accounts } = await call('list_accounts', { account: { account_id: 'acc_seeded' } })
    t.match(accounts, [{ account_id: 'acc_seeded', sandbox: true, operator: 'op.example' }])
    const again = { ...seed.fixture, sandbox: true, billing: 'operator' }
    const synced = await call('sync_accounts', { idempotency_key: randomUUID(), accounts: [again] })
    t.match(synced.accounts, [{ account_id: 'acc_seeded', action: 'unchanged' }])
    t.match((await call('list_accounts', {}, 'two')).accounts, [], 'of nobody else')
  })

  await t.test('what it cannot do, it says in its own words', async (t) => {
    const context = { correlation_id: 'c' }
    const unknown = await call('comply_test_controller', { scenario: 'nonexistent', account, context })
    t.match(unknown, { status: 'failed', success: false, error: 'UNKNOWN_SCENARIO', context })
    t.match(await force('force_account_status'), { error: 'INVALID_PARAMS' })
    t.match(await force('force_get_signals_arm', { arm: 'rejected' }), { error: 'INVALID_PARAMS' })
    t.match(await call('comply_test_controller', { scenario: 'list_scenarios' }), { error: 'FORBIDDEN' })
    const { sandbox: _, ...real } = account
    t.match(await force('list_scenarios', {}, 'one', real), { error: 'FORBIDDEN' })
  })
})

test('only a sandbox that is no production may be tested so', (t) => {
  const load =
    (file: object, environment = {}) =>
    () =>
      parseConfig('t', JSON.stringify(file), environment)
  t.doesNotThrow(load({ sandbox: true, test_controller: true }))
  t.throws(load({ test_controller: true }), { message: /test_controller/ })
  t.throws(load({ sandbox: true, test_controller: true }, { NODE_ENV: 'production' }), {
    message: /NODE_ENV is production/,
  })
  t.end()
})
