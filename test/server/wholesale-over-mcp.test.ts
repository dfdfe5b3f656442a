import { test } from 'tap'
import { adcpSchema, SCHEMAS_ABSENT } from '../support/adcp-schema.js'
import { startServer } from '../support/server-fixture.js'

const page = { discovery_mode: 'wholesale', pagination: { max_results: 50 } }

test('a page walk gives every signal once, under one version', async (t) => {
  const { call } = await startServer(t)
  const seen: string[] = []
  const versions = new Set<string>()
  let cursor: string | undefined
  do {
    const answer = await call('get_signals', {
      ...page,
      pagination: { max_results: 50, ...(cursor && { cursor }) },
    })
    versions.add(`${answer.wholesale_feed_version} ${answer.pricing_version}`)
    t.equal(answer.cache_scope, 'public')
    t.equal(answer.pagination.total_count, 120)
    for (const { signal_ref, pricing_options } of answer.signals) {
      seen.push(signal_ref.signal_id)
      t.equal(pricing_options.length, 1)
    }
    cursor = answer.pagination.cursor
    t.equal(answer.pagination.has_more, cursor !== undefined)
  } while (cursor)
  t.same(seen.sort(), Array.from({ length: 120 }, (_, n) => `s${n}`).sort())
  t.equal(versions.size, 1)
})

test('a current token is answered without rows', async (t) => {
  const { call } = await startServer(t)
  const { wholesale_feed_version: feed, pricing_version: pricing } = await call('get_signals', page)
  const answer = await call('get_signals', {
    ...page,
    if_wholesale_feed_version: feed,
    if_pricing_version: pricing,
  })
  t.equal(answer.unchanged, true)
  t.same([answer.wholesale_feed_version, answer.pricing_version], [feed, pricing])
  t.notOk('signals' in answer)
  t.notOk('pagination' in answer)
  const full = await call('get_signals', {
    ...page,
    if_wholesale_feed_version: feed,
    if_pricing_version: 'p0',
  })
  t.notOk('unchanged' in full)
  t.equal(full.signals.length, 50)
})

test('page sizes: 50 by default, 100 at most, pagination wins over max_results', async (t) => {
  const { call } = await startServer(t)
  const size = async (args: object) =>
    (await call('get_signals', { discovery_mode: 'wholesale', ...args })).signals.length
  t.equal(await size({}), 50)
  t.equal(await size({ max_results: 7 }), 7)
  t.equal(await size({ max_results: 7, pagination: { max_results: 9 } }), 9)
  t.equal(await size({ pagination: { max_results: 500 } }), 100)
})

test('an exact lookup gives what is there, by reference and by legacy id', async (t) => {
  const { call } = await startServer(t)
  const answer = await call('get_signals', {
    signal_refs: [
      { scope: 'data_provider', data_provider_domain: 'p.example', signal_id: 's3' },
      { scope: 'data_provider', data_provider_domain: 'p.example', signal_id: 'missing' },
    ],
    signal_ids: [{ source: 'catalog', data_provider_domain: 'p.example', id: 's5' }],
  })
  t.equal(answer.status, 'completed')
  t.same(
    answer.signals.map((one: { signal_ref: { signal_id: string } }) => one.signal_ref.signal_id),
    ['s3', 's5'],
  )
})

test('every kind of answer validates against the protocol schema', { skip: SCHEMAS_ABSENT }, async (t) => {
  const { call } = await startServer(t)
  const signals = adcpSchema('signals/get-signals-response.json')
  const capabilities = adcpSchema('protocol/get-adcp-capabilities-response.json')
  const { wholesale_feed_version } = await call('get_signals', page)
  for (const args of [
    page,
    { ...page, if_wholesale_feed_version: wholesale_feed_version },
    { signal_refs: [{ scope: 'product', signal_id: 's3' }] },
    {},
    { ...page, pagination: { cursor: 'x' } },
  ]) {
    const answer = await call('get_signals', args)
    t.ok(signals(answer), JSON.stringify(signals.errors))
  }
  for (const name of ['get_adcp_capabilities', 'get_protocol_capabilities']) {
    const answer = await call(name, {})
    t.ok(capabilities(answer), JSON.stringify(capabilities.errors))
    t.same(answer.signals.discovery_modes, ['brief', 'wholesale'])
  }
})
