/** Every task under the pin of every release that is served; each answer is held against the schemas of its own release. */
import { equal, ok } from 'node:assert/strict'
import { freshKey } from '../wire.js'

const ACCOUNT = { brand: { domain: 'novamotors.example' }, operator: 'pinnacle-agency.example' }
const DESK = { type: 'platform', platform: 'the-trade-desk' }
const PREVIEW = '3.2-beta.5'

async function pinned(call, pin) {
  const ask = async (task, args = {}) => {
    const answer = await call(task, { ...args, adcp_version: pin })
    equal(answer.adcp_version, pin, `${task} names the release`)
    return answer
  }
  await ask('get_adcp_capabilities')
  const page = { discovery_mode: 'wholesale', pagination: { max_results: 100 } }
  const { signals } = await ask('get_signals', page)
  ok(signals.length > 0, 'there are signals')
  const sold = signals.find(({ pricing_options: options = [] }) => options.length > 0)
  await ask('get_signals', { signal_spec: 'electric vehicle intenders' })
  await ask('get_signals', { signal_refs: [sold.signal_ref] })
  await ask('get_signals', { ...page, signal_spec: 'both at once' })
  await ask('list_accounts')
  await ask('list_tasks')
  await ask('get_task_status', { task_id: 'task_of_nobody' })
  await ask('sync_accounts', { idempotency_key: freshKey(), accounts: [{ ...ACCOUNT, billing: 'operator' }] })
  const bought = {
    account: ACCOUNT,
    signal_agent_segment_id: sold.signal_agent_segment_id,
    pricing_option_id: sold.pricing_options[0].pricing_option_id,
  }
  const activation = { ...bought, idempotency_key: freshKey(), destinations: [DESK] }
  await ask('activate_signal', activation)
  await ask('activate_signal', {
    ...activation,
    idempotency_key: freshKey(),
    signal_agent_segment_id: 'nobody',
  })
  const usage = [{ ...bought, vendor_cost: 1, currency: 'USD', impressions: 10 }]
  const reporting_period = { start: '2026-11-01T00:00:00Z', end: '2026-11-20T00:00:00Z' }
  await ask('report_usage', { idempotency_key: freshKey(), reporting_period, usage })
}

export const ANSWERS_OF_RELEASES = [
  {
    name: 'every task under a pin of 3.0',
    release: '3.0',
    steps: { 'every answer names 3.0': ({ call }) => pinned(call, '3.0') },
  },
  {
    name: 'every task under a pin of 3.1',
    release: '3.1',
    steps: { 'every answer names 3.1': ({ call }) => pinned(call, '3.1') },
  },
  {
    name: 'every task under a pin of 3.2',
    release: '3.2',
    steps: {
      'it is declared, and every answer names it': async ({ call }) => {
        const { adcp } = await call('get_adcp_capabilities', {})
        ok(adcp.supported_versions.includes(PREVIEW), 'it is declared')
        await pinned(call, PREVIEW)
      },
    },
  },
]
