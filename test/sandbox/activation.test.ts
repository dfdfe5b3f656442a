import { test } from 'tap'
import type { AgentId } from '../../sandbox/parties.js'
import type { Sandbox } from '../../sandbox/world.js'
import type { SignalRow } from '../../src/adcp/signal.js'
import { ask, open, page, rowsOf } from './support/world.js'

const isLive = (row: SignalRow | undefined, number: number) => row?.deployments[number]?.is_live

async function dormant(sandbox: Sandbox, id: AgentId) {
  const rows = rowsOf([await page(sandbox, id)])
  const place = rows.findIndex((row) => isLive(row, 1) === false && row.pricing_options)
  const row = rows[place] as SignalRow
  const {
    type: _,
    is_live: __,
    estimated_activation_duration_minutes: ___,
    ...address
  } = row.deployments[1] as never as Record<string, unknown>
  const request = {
    idempotency_key: `key-${id}-0000000001`,
    signal_agent_segment_id: row.signal_agent_segment_id,
    pricing_option_id: row.pricing_options?.[0]?.pricing_option_id,
    destinations: [{ type: 'platform', ...address }],
  }
  const read = async () => rowsOf([await page(sandbox, id)])[place]
  return { request, read }
}

for (const id of ['northwind', 'harborlight'] as const) {
  test(`${id}: an activated signal is live with its key in the next read, under a new version`, async (t) => {
    const sandbox = await open(t)
    const { request, read } = await dormant(sandbox, id)
    const before = await page(sandbox, id, { max_results: 1 })
    const answer = await ask(sandbox, id, 'activate_signal', request)
    t.match(answer, {
      status: 'completed',
      deployments: [{ is_live: true, activation_key: { type: 'segment_id' } }],
    })
    t.same((await read())?.deployments[1], answer.deployments?.[0])
    const after = await page(sandbox, id, { max_results: 1 })
    t.not(before.wholesale_feed_version, after.wholesale_feed_version)

    const off = { ...request, action: 'deactivate', idempotency_key: `key-${id}-0000000002` }
    t.match(await ask(sandbox, id, 'activate_signal', off), { deployments: [{ is_live: false }] })
    t.equal(isLive(await read(), 1), false)
    t.same([sandbox.agents[id].activations(), sandbox.agents[id].deactivations()], [1, 1])
  })
}

test('a replay activates nothing and says so; the key does not serve another request', async (t) => {
  const sandbox = await open(t)
  const { request } = await dormant(sandbox, 'northwind')
  const first = await ask(sandbox, 'northwind', 'activate_signal', request)
  const again = await ask(sandbox, 'northwind', 'activate_signal', { ...request, context: { attempt: 2 } })
  t.match(again, { replayed: true, deployments: first.deployments })
  const other = { ...request, destinations: [{ type: 'platform', platform: 'the-trade-desk' }] }
  t.equal(
    (await ask(sandbox, 'northwind', 'activate_signal', other)).adcp_error?.code,
    'IDEMPOTENCY_CONFLICT',
  )
  t.equal(sandbox.agents.northwind.activations(), 1)
  t.equal(sandbox.agents.northwind.calls('activate_signal'), 3)
})

test('meridian answers submitted; the task ends with the deployment', async (t) => {
  let time = Date.parse('2026-11-20T12:00:00Z')
  const sandbox = await open(t, { now: () => time, activationDelayMs: 60_000 })
  const { request, read } = await dormant(sandbox, 'meridian')
  const { status, task_id } = await ask(sandbox, 'meridian', 'activate_signal', request)
  t.equal(status, 'submitted')
  const poll = () => ask(sandbox, 'meridian', 'get_task_status', { task_id, include_result: true })
  t.equal((await poll()).status, 'working')
  t.equal(isLive(await read(), 1), false)
  time += 60_000
  t.match(await poll(), { status: 'completed', result: { deployments: [{ is_live: true }] } })
  t.equal(isLive(await read(), 1), true)
})

test('a signal that is switched off before it went live stays off', async (t) => {
  let time = Date.parse('2026-11-20T12:00:00Z')
  const sandbox = await open(t, { now: () => time, activationDelayMs: 5_000 })
  const { request, read } = await dormant(sandbox, 'northwind')
  await ask(sandbox, 'northwind', 'activate_signal', request)
  const off = { ...request, action: 'deactivate', idempotency_key: 'key-northwind-0000000009' }
  await ask(sandbox, 'northwind', 'activate_signal', off)
  time += 5_000
  t.equal(isLive(await read(), 1), false)
})

test('with a delay a signal goes live later, and the version moves then', async (t) => {
  let time = Date.parse('2026-11-20T12:00:00Z')
  const sandbox = await open(t, { now: () => time, activationDelayMs: 5_000 })
  const { request, read } = await dormant(sandbox, 'northwind')
  const version = async () => (await page(sandbox, 'northwind', { max_results: 1 })).wholesale_feed_version
  const before = await version()
  t.match(await ask(sandbox, 'northwind', 'activate_signal', request), { deployments: [{ is_live: false }] })
  t.equal(await version(), before)
  time += 5_000
  t.equal(isLive(await read(), 1), true)
  t.not(await version(), before)
})

test('an answer can be lost after the work was done; the retry is a replay', async (t) => {
  const sandbox = await open(t)
  for (const id of ['northwind', 'harborlight'] as const) {
    const { request } = await dormant(sandbox, id)
    sandbox.agents[id].loseAnswers(1)
    await t.rejects(ask(sandbox, id, 'activate_signal', request))
    t.match(await ask(sandbox, id, 'activate_signal', request), { status: 'completed', replayed: true })
    t.equal(sandbox.agents[id].activations(), 1)
  }
})

test('what cannot be activated is refused and counts as nothing', async (t) => {
  const sandbox = await open(t)
  const { request } = await dormant(sandbox, 'northwind')
  const cases: [string, object][] = [
    ['INVALID_REQUEST', { ...request, idempotency_key: 'short' }],
    ['REFERENCE_NOT_FOUND', { ...request, signal_agent_segment_id: 'mrd:aud:1' }],
    ['REFERENCE_NOT_FOUND', { ...request, signal_agent_segment_id: 'nw_seg_zzzzzz' }],
    ['INVALID_REQUEST', { ...request, destinations: [] }],
    ['INVALID_REQUEST', { ...request, destinations: [{ type: 'platform', platform: 'nowhere' }] }],
    ['INVALID_REQUEST', { ...request, pricing_option_id: 'nw_seg_zz_cpm' }],
  ]
  for (const [code, args] of cases) {
    const answer = await ask(sandbox, 'northwind', 'activate_signal', { ...args })
    t.equal(answer.adcp_error?.code, code)
  }
  t.equal(sandbox.agents.northwind.activations(), 0)
})

test('a withdrawn signal can still be switched off', async (t) => {
  const sandbox = await open(t)
  const { request } = await dormant(sandbox, 'northwind')
  sandbox.agents.northwind.withdraw(1_000_000)
  t.equal(
    (await ask(sandbox, 'northwind', 'activate_signal', request)).adcp_error?.code,
    'REFERENCE_NOT_FOUND',
  )
  const off = await ask(sandbox, 'northwind', 'activate_signal', { ...request, action: 'deactivate' })
  t.match(off, { deployments: [{ is_live: false }] })
})

test('usage rows are accepted and counted once', async (t) => {
  const sandbox = await open(t)
  const usage = [{ account: { account_id: 'a' }, vendor_cost: 1.5, currency: 'EUR' }]
  const report = { idempotency_key: 'usage-000000000001', usage: [...usage, ...usage] }
  t.match(await ask(sandbox, 'harborlight', 'report_usage', report), { accepted: 2 })
  t.match(await ask(sandbox, 'harborlight', 'report_usage', report), { accepted: 2, replayed: true })
  t.equal(sandbox.agents.harborlight.usageRows(), 2)
})
