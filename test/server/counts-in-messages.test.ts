/** Whatever an answer counts, its message says it as people do: none, one, or several. */
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { test } from 'tap'
import { firstOf, howMany } from '../../src/adcp/answer.js'
import { briefMessage } from '../../src/briefs/discover.js'
import { type Said, startOver, TRADE_DESK } from '../support/federation-over.js'
import { proven } from '../support/proven.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { rows, until } from '../support/upstream-world.js'

const NOUNS =
  'account|character|data provider|day|deployment|destination|matching signal|minute|row|signal|task|upstream|usage row'
/** One of several, several of one, or a verb that does not go with its number. */
const WRONG = new RegExp(
  String.raw`\b1 (?:${NOUNS})s\b|(?<![\d.])(?:0|[2-9]|\d\d+) (?:${NOUNS})(?!s)\b|\b1 (?:[a-z]+ )?are\b|\b(?:0|[2-9]) (?:[a-z]+ )?is\b`,
)

test('a noun follows its number', (t) => {
  t.same(
    [0, 1, 2].map((count) => howMany(count, 'account')),
    ['0 accounts', '1 account', '2 accounts'],
  )
  t.same(
    [1, 2].map((count) => howMany(count, 'entry')),
    ['1 entry', '2 entries'],
  )
  t.same(
    [1, 2].map((count) => howMany(count, 'day')),
    ['1 day', '2 days'],
  )
  for (const wrong of ['1 accounts synced', '0 account', '2 task', '1 are live', '2 is live', '12 usage row'])
    t.match(wrong, WRONG)
  t.end()
})

test('of many names the first are said, and how many others there are', (t) => {
  t.same(
    [['a'], ['a', 'b'], ['a', 'b', 'c']].map((names) => firstOf(2, names)),
    ['a', 'a, b', 'a, b and 1 more'],
  )
  t.end()
})

test('the message of a brief says its counts right, whatever they are', (t) => {
  const few = fc.integer({ min: 0, max: 2 })
  const days = fc.array(fc.integer({ min: 1, max: 2 }), { minLength: 1, maxLength: 2 })
  proven(
    t,
    100,
    fc.property(few, few, few, few, days, fc.boolean(), (count, total, missing, wait, lookbackDays, has) => {
      const estimated_activation_duration_minutes = wait
      const deployments = [
        { type: 'platform', platform: 'dv360', is_live: false, estimated_activation_duration_minutes },
      ]
      const best = has && total > 0 ? { best: { name: 'One', deployments, pricing_options: [] } } : {}
      const read = { rest: '', countries: [], platforms: [], lookbackDays, isMet: true, isCut: false }
      const outcome = { ...best, count, total, missing, isSearched: true, seesPrices: true, read }
      const message = briefMessage(outcome as unknown as Parameters<typeof briefMessage>[0])
      if (WRONG.test(message)) throw new Error(message)
    }),
  )
  t.end()
})

for (const size of [0, 1, 2]) {
  test(`every task, where there are ${size}`, async (t) => {
    const feed = wholesaleAgent(rows(size), 'v1')
    const activated = (args: Said) => ({
      deployments: args.destinations.map((one: object) => ({
        ...one,
        is_live: args.action !== 'deactivate',
      })),
    })
    const agent = await startMcpAgent((task, args) => {
      if (task === 'activate_signal') return activated(args)
      return task === 'report_usage' ? { accepted: (args.usage as []).length } : feed.handle(task, args)
    })
    t.teardown(() => agent.close())
    const over = await startOver(t, [{ id: 'one', url: agent.url }])
    await until('read', () => over.federation.statuses().every(({ state }) => state === 'fresh'))
    const said: string[] = []
    const ask = async (task: string, input: object = {}): Promise<Said> => {
      const answer = await over.call(task, { adcp_version: '3.1', ...input })
      t.equal(answer.adcp_error, undefined, task)
      const warnings = (answer.errors ?? []).map(({ message }: Said) => message)
      said.push(...[answer.message, ...warnings].map((message) => `${task}: ${message}`))
      return answer
    }
    const keyed = (more: object) => ({ idempotency_key: randomUUID(), ...more })
    const { signals } = await ask('get_signals', { discovery_mode: 'wholesale' })
    await ask('get_signals', {
      discovery_mode: 'wholesale',
      destinations: [TRADE_DESK, { type: 'platform', platform: 'dv360' }],
    })
    await ask('get_signals', { signal_spec: 'shoppers' })
    for (const asked of [1, 2]) {
      await ask('get_signals', { signal_refs: rows(asked).map(({ signal_ref }) => signal_ref) })
    }
    const accounts = rows(size).map((_, at) => ({
      ...{ brand: { domain: `brand-${at}.example` }, operator: `brand-${at}.example`, billing: 'operator' },
    }))
    if (size > 0) await ask('sync_accounts', keyed({ accounts }))
    await ask('list_accounts')
    for (const { signal_agent_segment_id, pricing_options } of signals) {
      const [{ pricing_option_id }] = pricing_options
      const target = { signal_agent_segment_id, destinations: [TRADE_DESK] }
      await ask('activate_signal', keyed({ ...target, pricing_option_id }))
    }
    const usage = signals.map(({ signal_agent_segment_id, pricing_options }: Said) => ({
      ...{ signal_agent_segment_id, pricing_option_id: pricing_options[0].pricing_option_id },
      ...{ account: accounts[0], impressions: 1_000, vendor_cost: 2, currency: 'USD' },
    }))
    const reporting_period = { start: '2026-03-01T00:00:00Z', end: '2026-03-31T23:59:59Z' }
    for (const row of usage) delete row.account.billing
    if (size > 0) await ask('report_usage', keyed({ reporting_period, usage }))
    await ask('list_tasks')
    for (const { signal_agent_segment_id } of signals) {
      const target = { signal_agent_segment_id, destinations: [TRADE_DESK] }
      await ask('activate_signal', keyed({ ...target, action: 'deactivate' }))
    }
    await ask('get_adcp_capabilities')
    for (const message of said) {
      t.comment(message)
      t.notMatch(message, WRONG)
    }
  })
}

test('what tools say of themselves is in words alone', async (t) => {
  const agent = await startMcpAgent(wholesaleAgent([], 'v1').handle)
  t.teardown(() => agent.close())
  const { federation } = await startOver(t, [{ id: 'one', url: agent.url }])
  const listed = await fetch(`${federation.url}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
  })
  const { result } = (await listed.json()) as { result: { tools: { name: string; description: string }[] } }
  t.ok(result.tools.some(({ name }) => name === 'report_usage'))
  for (const { name, description } of result.tools) t.notMatch(description, /\b[a-z]+[A-Z]/, name)
})
