import { test } from 'tap'
import type { AgentId } from '../../sandbox/parties.js'
import type { Sandbox } from '../../sandbox/world.js'
import { ask, open, page, rowsOf } from './support/world.js'

const TRADE_DESK = { type: 'platform', platform: 'the-trade-desk' }
const WONDERSTRUCK = { type: 'agent', agent_url: 'https://wonderstruck.salesagents.example' }

let keys = 0

async function activate(sandbox: Sandbox, id: AgentId, destination: object) {
  const row = rowsOf([await page(sandbox, id)]).find(({ pricing_options }) => pricing_options)
  keys += 1
  return await ask(sandbox, id, 'activate_signal', {
    idempotency_key: `seat-${String(keys).padStart(16, '0')}`,
    signal_agent_segment_id: row?.signal_agent_segment_id,
    pricing_option_id: row?.pricing_options?.[0]?.pricing_option_id,
    destinations: [destination],
  })
}

test('a desk without a seat of its own delivers to the seat that was asked for; one with a seat to that alone', async (t) => {
  const sandbox = await open(t)
  const seat = { ...TRADE_DESK, account: 'agency-123-ttd' }
  t.match(await activate(sandbox, 'northwind', seat), { deployments: [{ ...seat, is_live: true }] })
  const exchange = { type: 'platform', platform: 'index-exchange' }
  t.match(await activate(sandbox, 'northwind', { ...exchange, account: 'somebody-else' }), {
    adcp_error: { code: 'INVALID_REQUEST' },
  })
})

test('meridian answers at once for the seat it is connected to, and by a task for any other', async (t) => {
  const sandbox = await open(t)
  const seat = { ...TRADE_DESK, account: 'agency-123-ttd' }
  t.match(await activate(sandbox, 'meridian', seat), {
    status: 'completed',
    deployments: [{ ...seat, is_live: true, activation_key: { type: 'segment_id' } }],
  })
  for (const other of [TRADE_DESK, { ...TRADE_DESK, account: 'another-seat' }]) {
    t.match(await activate(sandbox, 'meridian', other), { status: 'submitted' })
  }
})

test('the sales agent of the protocol’s storyboards is served by whoever sells automotive signals', async (t) => {
  const sandbox = await open(t)
  for (const id of ['northwind', 'meridian'] as const) {
    t.match(await activate(sandbox, id, WONDERSTRUCK), {
      deployments: [{ ...WONDERSTRUCK, is_live: true, activation_key: { type: 'key_value' } }],
    })
  }
})
