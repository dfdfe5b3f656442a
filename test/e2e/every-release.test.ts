/** Every task under the pin of every release that is served, over both transports; each answer is valid in its release. */
import { randomUUID } from 'node:crypto'
import { test } from 'tap'
import { adcpSchema, SCHEMAS_ABSENT, type SchemaRelease } from '../support/adcp-schema.js'
import { type Answer, BUYER, type Signal, startWorld, type World } from '../support/federation.js'

const PINS: readonly [pin: string, schemas: SchemaRelease][] = [
  ['3.1', '3.1.19'],
  ['3.2-beta.5', '3.2.0-beta.5'],
]
const RESPONSES: Readonly<Record<string, string>> = {
  get_adcp_capabilities: 'protocol/get-adcp-capabilities-response.json',
  get_signals: 'signals/get-signals-response.json',
  activate_signal: 'signals/activate-signal-response.json',
  get_task_status: 'protocol/get-task-status-response.json',
  list_tasks: 'protocol/list-tasks-response.json',
  list_accounts: 'account/list-accounts-response.json',
  sync_accounts: 'account/sync-accounts-response.json',
  report_usage: 'account/report-usage-response.json',
}
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
  const world = await startWorld({
    signals: 120,
    config: () => ({ preview_releases: ['3.2-beta.5'] }),
  })
  t.teardown(() => world.close())
  for (const [pin, release] of PINS)
    for (const transport of ['mcp', 'a2a'] as const) {
      const call = (task: string, input: object) =>
        transport === 'mcp' ? world.call(task, input) : overA2a(world, task, input)
      let asked = 0
      const ask: Ask = async (task, input = {}) => {
        asked += 1
        const answer = await call(task, { ...input, adcp_version: pin })
        t.equal(answer.adcp_version, pin, `${task} over ${transport} names ${pin}`)
        if (SCHEMAS_ABSENT) return answer
        const { adcp_error: error } = answer
        const validate = adcpSchema(error ? 'core/error.json' : (RESPONSES[task] as string), release)
        validate(error ?? answer)
        t.same(validate.errors ?? [], [], `${task} over ${transport} is valid in ${release}`)
        return answer
      }
      await askAll(ask)
      t.equal(asked, 14, `${transport}, ${pin}: every task was asked`)
    }
})
