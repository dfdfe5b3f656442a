import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'tap'
import { ERROR_CODES } from '../../src/adcp/answer.js'
import { adcpSchema, SCHEMAS_ABSENT } from '../support/adcp-schema.js'
import { startOver, TRADE_DESK } from '../support/federation-over.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'

const FOLDER = 'docs/errors'
const WARNINGS = [
  'PARTIAL_COVERAGE',
  'PRICES_CONVERTED',
  'PRICING_UNAVAILABLE',
  'QUESTION_CUT',
  'STALE_DATA',
  'UNKNOWN_FILTER',
]

test('each code has one page, and each page one code', (t) => {
  const pages = readdirSync(FOLDER).map((file) => file.replace(/\.md$/, ''))
  t.same(pages.sort(), [...Object.keys(ERROR_CODES), ...WARNINGS].sort())
  t.end()
})

test('a page says the recovery that the code carries', (t) => {
  for (const [code, recovery] of Object.entries(ERROR_CODES)) {
    t.ok(readFileSync(`${FOLDER}/${code}.md`, 'utf8').includes(`Recovery: \`${recovery}\``), code)
  }
  t.end()
})

const OF_THE_SPECIFICATION = ['AGENT_ACCESS_DENIED'] // its "Errors" name it, the schemas' list does not

test('each code is one of the protocol, with the recovery that it gives', { skip: SCHEMAS_ABSENT }, (t) => {
  const { enumMetadata } = adcpSchema('enums/error-code.json').schema as {
    enumMetadata: Record<string, { recovery: string }>
  }
  const codes = Object.entries(ERROR_CODES).filter(([code]) => !OF_THE_SPECIFICATION.includes(code))
  for (const [code, recovery] of codes) t.equal(enumMetadata[code]?.recovery, recovery, code)
  t.end()
})

test('a natural key opens its account, and is refused once that is closed, as the page says', async (t) => {
  const page = readFileSync(`${FOLDER}/ACCOUNT_NOT_FOUND.md`, 'utf8')
  const [named, refusal] = [...page.matchAll(/```json\n(.*?)```/gs)].map(([, text]) =>
    JSON.parse(text as string),
  )
  const feed = wholesaleAgent([row(1)], 'v1')
  const agent = await startMcpAgent((task, args) => {
    if (task === 'activate_signal') return { deployments: args.destinations }
    return task === 'report_usage' ? { accepted: 1 } : feed.handle(task, args)
  })
  t.teardown(() => agent.close())
  const over = await startOver(t, [{ id: 'one', url: agent.url }])
  const keyed = (more: object) => ({ idempotency_key: randomUUID(), ...more })
  const { signals } = await over.wholesale()
  const [{ signal_agent_segment_id, pricing_options }] = signals
  const [{ pricing_option_id }] = pricing_options
  const offer = { signal_agent_segment_id, pricing_option_id }
  const period = { start: '2026-03-01T00:00:00Z', end: '2026-03-31T23:59:59Z' }
  const usage = { ...offer, ...named, impressions: 1_000, vendor_cost: 2, currency: 'USD' }
  const tasks: [string, () => object][] = [
    ['get_signals', () => ({ discovery_mode: 'wholesale', ...named })],
    ['activate_signal', () => keyed({ ...offer, destinations: [TRADE_DESK], ...named })],
    ['report_usage', () => keyed({ reporting_period: period, usage: [usage] })],
  ]
  for (const [task, input] of tasks) {
    const { adcp_error: error, errors } = await over.call(task, input())
    t.same([error, errors], [undefined, undefined], `${task} accepts it, undeclared`)
  }
  const account = { ...named.account, billing: 'operator' }
  await over.call('sync_accounts', keyed({ accounts: [account] }))
  await over.call('sync_accounts', keyed({ accounts: [], delete_missing: true }))
  const [[, read], [, activate]] = tasks as [(typeof tasks)[0], (typeof tasks)[0]]
  t.equal((await over.call('get_signals', read())).signals.length, 1, 'get_signals reads the rate card')
  t.same((await over.call('activate_signal', activate())).adcp_error, refusal, 'activate_signal refuses it')
  const { errors } = await over.call('report_usage', keyed({ reporting_period: period, usage: [usage] }))
  t.match(errors, [{ code: refusal.code, field: 'usage[0].account' }], 'report_usage refuses the row')
})
