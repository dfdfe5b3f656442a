/** Every task under the pin of every release that is served, over both transports; each answer is valid in its release. */
import { randomUUID } from 'node:crypto'
import { test } from 'tap'
import type { Release } from '../../src/adcp/answer.js'
import { answerFault } from '../support/adcp-answers.js'
import { hasSchemasOf } from '../support/adcp-schema.js'
import { needConformancePackages } from '../support/conformance-packages.js'
import { type Answer, BUYER, type Signal, startWorld, type World } from '../support/federation.js'

const PINS: readonly Release[] = ['3.0', '3.1', '3.2-beta.5']
const ACCOUNT = { brand: { domain: 'novamotors.example' }, operator: 'pinnacle-agency.example' }
const DESK = { type: 'platform', platform: 'the-trade-desk' }

type Ask = (task: string, input?: object) => Promise<Answer>

async function overA2a({ federation }: World, skill: string, input: object): Promise<Answer> {
  const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ data: { skill, input } }] }
  const reply = await fetch(`${federation.url}/a2a`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${BUYER}`,
      'a2a-version': '1.0',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } }),
  })
  const { result } = (await reply.json()) as {
    result: { task: { artifacts: [{ parts: [{ data: Answer }] }] } }
  }
  return result.task.artifacts[0].parts[0].data
}

/** Every task, asked well and asked wrong. */
async function askAll(ask: Ask): Promise<void> {
  const idempotency_key = () => randomUUID()
  await ask('get_adcp_capabilities')
  const page = { discovery_mode: 'wholesale', pagination: { max_results: 100 } }
  const { signals = [], wholesale_feed_version: if_wholesale_feed_version } = await ask('get_signals', page)
  const sold = signals.find(({ pricing_options: options = [] }) => options.length > 0) as Signal
  await ask('get_signals', { ...page, if_wholesale_feed_version })
  await ask('get_signals', { signal_spec: 'electric vehicle intenders' })
  await ask('get_signals', { signal_refs: [sold.signal_ref] })
  await ask('get_signals', { ...page, signal_spec: 'both at once' })
  await ask('list_accounts')
  await ask('sync_accounts', {
    idempotency_key: idempotency_key(),
    accounts: [{ ...ACCOUNT, billing: 'operator' }],
  })
  await ask('sync_accounts', { idempotency_key: idempotency_key(), accounts: 'none' })
  const bought = {
    account: ACCOUNT,
    signal_agent_segment_id: sold.signal_agent_segment_id,
    pricing_option_id: sold.pricing_options?.[0]?.pricing_option_id,
  }
  const activation = { ...bought, destinations: [DESK] }
  await ask('activate_signal', { ...activation, idempotency_key: idempotency_key() })
  await ask('activate_signal', {
    ...activation,
    idempotency_key: idempotency_key(),
    signal_agent_segment_id: 'nobody',
  })
  await ask('list_tasks')
  await ask('get_task_status', { task_id: 'task_of_nobody' })
  const usage = [{ ...bought, vendor_cost: 1, currency: 'USD', impressions: 10 }]
  const reporting_period = { start: '2026-11-01T00:00:00Z', end: '2026-11-20T00:00:00Z' }
  await ask('report_usage', { idempotency_key: idempotency_key(), reporting_period, usage })
}

test('each answer names the release of the pin and is valid by its schemas', async (t) => {
  await needConformancePackages()
  t.ok(hasSchemasOf('3.0'), 'the schemas of 3.0 are at hand')
  const world = await startWorld({
    signals: 120,
    config: () => ({ preview_releases: ['3.2-beta.5'] }),
  })
  t.teardown(() => world.close())
  for (const pin of PINS)
    for (const transport of ['mcp', 'a2a'] as const) {
      const call = (task: string, input: object) =>
        transport === 'mcp' ? world.call(task, input) : overA2a(world, task, input)
      let asked = 0
      const ask: Ask = async (task, input = {}) => {
        asked += 1
        const answer = await call(task, { ...input, adcp_version: pin })
        t.equal(answer.adcp_version, pin, `${task} over ${transport} names ${pin}`)
        t.equal(answerFault(task, answer, pin), undefined, `${task} over ${transport} is valid in ${pin}`)
        return answer
      }
      await askAll(ask)
      t.equal(asked, 14, `${transport}, ${pin}: every task was asked`)
    }
})
