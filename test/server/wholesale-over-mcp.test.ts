import { test } from 'tap'
import { adcpSchema, SCHEMAS_ABSENT } from '../support/adcp-schema.js'
import { row, startServer } from '../support/server-fixture.js'

const page = { discovery_mode: 'wholesale', pagination: { max_results: 50 } }

test('a page walk gives every signal once, under one version', async (t) => {
  const { call } = await startServer(t)
  const seen: unknown[] = []
  let cursor: string | undefined
  do {
    const answer = await call('get_signals', {
      ...page,
      pagination: { max_results: 50, ...(cursor && { cursor }) },
    })
    t.equal(answer.wholesale_feed_version, 'f1')
    t.equal(answer.cache_scope, 'public')
    t.equal(answer.pagination.total_count, 120)
    seen.push(...answer.signals)
    cursor = answer.pagination.cursor
    t.equal(answer.pagination.has_more, cursor !== undefined)
  } while (cursor)
  t.same(
    seen,
    Array.from({ length: 120 }, (_, n) => row(n)),
  )
})

test('a current token is answered without rows', async (t) => {
  const { call } = await startServer(t)
  const answer = await call('get_signals', {
    ...page,
    if_wholesale_feed_version: 'f1',
    if_pricing_version: 'p1',
  })
  t.equal(answer.unchanged, true)
  t.notOk('signals' in answer)
  t.notOk('pagination' in answer)
  const full = await call('get_signals', {
    ...page,
    if_wholesale_feed_version: 'f1',
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
  t.same(answer.signals, [row(3), row(5)])
})

test('every kind of answer validates against the protocol schema', { skip: SCHEMAS_ABSENT }, async (t) => {
  const { call } = await startServer(t)
  const signals = adcpSchema('signals/get-signals-response.json')
  const capabilities = adcpSchema('protocol/get-adcp-capabilities-response.json')
  for (const args of [
    page,
    { ...page, if_wholesale_feed_version: 'f1' },
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
    t.same(answer.signals.discovery_modes, ['wholesale'], 'nothing is claimed that does not work')
  }
})
