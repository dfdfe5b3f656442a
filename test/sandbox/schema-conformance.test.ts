import { test } from 'tap'
import type { AgentId } from '../../sandbox/parties.js'
import { schema, schemasAbsent } from './support/schema.js'
import { ask, fileAt, open, type Payload, page, rowsOf, walk } from './support/world.js'

const CURRENT: AgentId[] = ['northwind', 'meridian', 'harborlight', 'gullwing']

test('every page of every agent is a valid get_signals response', { skip: schemasAbsent }, async (t) => {
  const valid = schema('signals/get-signals-response.json')
  const sandbox = await open(t)
  for (const id of CURRENT) {
    const pages = await walk(sandbox, id)
    for (const each of pages) t.ok(valid(each), `${id}: ${JSON.stringify(valid.errors?.slice(0, 2))}`)
  }
  const fields = ['taxonomy', 'modeling', 'data_subject_rights', 'onboarder', 'segmentation_criteria']
  const rich = await page(sandbox, 'meridian', { max_results: 100 }, { fields })
  t.ok(valid(rich), JSON.stringify(valid.errors))
  t.ok(
    rich.signals?.some(({ data_subject_rights }) => data_subject_rights),
    'fields bring definition fields',
  )
})

test('the agent of 3.0 sends valid rows, and no cache scope yet', { skip: schemasAbsent }, async (t) => {
  const valid = schema('signals/get-signals-response.json')
  const sandbox = await open(t)
  const found = await ask(sandbox, 'oldmill', 'get_signals', {
    signal_spec: 'electric grocery mortgage allergy',
  })
  t.notOk('cache_scope' in found || 'adcp_version' in found)
  t.ok(valid({ ...found, cache_scope: 'public' }), JSON.stringify(valid.errors))
})

test('capabilities, activation, usage and errors are valid', { skip: schemasAbsent }, async (t) => {
  const sandbox = await open(t)
  const check = (name: string, payload: Payload) => {
    const valid = schema(name)
    t.ok(valid(payload), `${name}: ${JSON.stringify(valid.errors)}`)
  }
  for (const id of [...CURRENT, 'oldmill'] as AgentId[]) {
    check('protocol/get-adcp-capabilities-response.json', await ask(sandbox, id, 'get_adcp_capabilities'))
  }
  const row = rowsOf([await page(sandbox, 'northwind')])[0]
  const request = {
    idempotency_key: 'schema-conformance-1',
    signal_agent_segment_id: row?.signal_agent_segment_id,
    pricing_option_id: row?.pricing_options?.[0]?.pricing_option_id,
    destinations: [{ type: 'platform', platform: 'the-trade-desk' }],
  }
  check('signals/activate-signal-response.json', await ask(sandbox, 'northwind', 'activate_signal', request))
  check('signals/activate-signal-response.json', await ask(sandbox, 'northwind', 'activate_signal', {}))
  const usage = [{ account: { account_id: 'a' }, vendor_cost: 1, currency: 'USD' }]
  const report = { idempotency_key: 'schema-conformance-2', usage }
  check('account/report-usage-response.json', await ask(sandbox, 'northwind', 'report_usage', report))
  check('signals/get-signals-response.json', await page(sandbox, 'northwind', { max_results: 0 }))
})

test('every provider file is valid and within its size', { skip: schemasAbsent }, async (t) => {
  const valid = schema('adagents.json')
  const sandbox = await open(t)
  const urls = ['motorledger.example', 'larderloyalty.example', 'atlasb2b.example'].map(
    (domain) => `https://${domain}/.well-known/adagents.json`,
  )
  for (const url of [...urls, 'https://rights.ledgerline.example/atlas/adagents.json']) {
    t.ok(valid(await fileAt(sandbox, url)), `${url}: ${JSON.stringify(valid.errors?.slice(0, 3))}`)
  }
  const million = await open(t, { signals: 1_000_000 })
  for (const url of urls) {
    const bytes = JSON.stringify(await fileAt(million, url)).length
    t.ok(bytes < 5 * 1024 * 1024, `${url} has ${bytes} bytes in a market of a million`)
  }
})
