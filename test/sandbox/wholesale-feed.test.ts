import { test } from 'tap'
import { GOLD_ACCOUNT } from '../../sandbox/discovery.js'
import type { AgentId } from '../../sandbox/parties.js'
import { ask, open, page, rowsOf, walk } from './support/world.js'

const account = { account_id: GOLD_ACCOUNT }

test('a walk gives every signal once, under one version', async (t) => {
  const sandbox = await open(t)
  for (const id of ['northwind', 'meridian', 'harborlight', 'gullwing'] as AgentId[]) {
    const pages = await walk(sandbox, id, 37)
    const rows = rowsOf(pages)
    const handles = new Set(rows.map(({ signal_agent_segment_id }) => signal_agent_segment_id))
    t.equal(handles.size, rows.length, `${id} repeats nothing`)
    t.ok(
      pages.every(({ pagination }) => pagination?.total_count === rows.length),
      `${id} counts right`,
    )
    t.equal(new Set(pages.map(({ wholesale_feed_version }) => wholesale_feed_version)).size, 1)
    t.ok(pages.slice(0, -1).every(({ signals }) => signals?.length === 37))
  }
})

test('a current token is answered without signals or pagination', async (t) => {
  const sandbox = await open(t)
  const { wholesale_feed_version, pricing_version } = await page(sandbox, 'northwind', { max_results: 1 })
  const probe = (more: object) =>
    page(sandbox, 'northwind', {}, { if_wholesale_feed_version: wholesale_feed_version, ...more })
  const same = await probe({ if_pricing_version: pricing_version })
  t.match(same, { status: 'completed', unchanged: true, cache_scope: 'public', wholesale_feed_version })
  t.notOk('signals' in same || 'pagination' in same)
  t.ok((await probe({ if_pricing_version: 'other' })).signals)
  t.ok((await page(sandbox, 'northwind', {}, { if_wholesale_feed_version: 'other' })).signals)
})

test('new prices move the pricing version; the feed version only where the agent has one for both', async (t) => {
  const sandbox = await open(t)
  for (const [id, separate] of [
    ['northwind', true],
    ['harborlight', false],
  ] as const) {
    const before = await page(sandbox, id)
    sandbox.agents[id].reprice()
    const after = await page(sandbox, id)
    t.equal(before.wholesale_feed_version === after.wholesale_feed_version, separate, id)
    t.equal(before.pricing_version !== after.pricing_version, separate, id)
    t.notSame(rowsOf([before])[0]?.pricing_options, rowsOf([after])[0]?.pricing_options)
    t.same({ ...rowsOf([before])[0], pricing_options: 0 }, { ...rowsOf([after])[0], pricing_options: 0 })
  }
})

test('withdrawn signals leave the feed and move its version', async (t) => {
  const sandbox = await open(t)
  const before = await page(sandbox, 'meridian', { max_results: 1 })
  sandbox.agents.meridian.withdraw(5)
  const after = await page(sandbox, 'meridian', { max_results: 1 })
  t.not(before.wholesale_feed_version, after.wholesale_feed_version)
  t.equal((before.pagination?.total_count ?? 0) - (after.pagination?.total_count ?? 0), 5)
  t.equal(rowsOf(await walk(sandbox, 'meridian')).length, after.pagination?.total_count)
})

test('the gold account has lower prices in a scope of its own; other accounts have the public ones', async (t) => {
  const sandbox = await open(t)
  const rateCard = await page(sandbox, 'northwind')
  const gold = await page(sandbox, 'northwind', { max_results: 100 }, { account })
  const other = await page(
    sandbox,
    'northwind',
    { max_results: 100 },
    { account: { account_id: 'acct_other' } },
  )
  t.match([rateCard.cache_scope, gold.cache_scope, other.cache_scope], ['public', 'account', 'public'])
  t.same(other.signals, rateCard.signals)
  t.not(gold.wholesale_feed_version, rateCard.wholesale_feed_version)
  const cpm = (row?: { pricing_options?: object[] }) =>
    Number((row?.pricing_options?.[0] as { cpm?: number })?.cpm)
  const position = rowsOf([rateCard]).findIndex((row) => cpm(row) > 1)
  t.ok(cpm(rowsOf([gold])[position]) < cpm(rowsOf([rateCard])[position]))
})

test('what wholesale forbids is refused, with the caller’s context', async (t) => {
  const sandbox = await open(t)
  const foreign = (await page(sandbox, 'meridian', { max_results: 1 })).pagination?.cursor
  const wrong: [string, object, object][] = [
    ['signal_spec', {}, { signal_spec: 'cars' }],
    ['signal_refs', {}, { signal_refs: [] }],
    ['signal_ids', {}, { signal_ids: [] }],
    ['if_pricing_version', {}, { if_pricing_version: 'x' }],
    ['pagination.max_results', { max_results: 0 }, {}],
    ['pagination.cursor', { cursor: 'garbage' }, {}],
    ['pagination.cursor', { cursor: foreign }, {}],
  ]
  for (const [field, pagination, more] of wrong) {
    const context = { correlation: field }
    const answer = await page(sandbox, 'northwind', { ...pagination }, { ...more, context })
    t.match(answer, { status: 'failed', adcp_error: { code: 'INVALID_REQUEST', field }, context })
  }
  const next = await ask(sandbox, 'northwind', 'get_signals', {
    adcp_version: '4.0',
    discovery_mode: 'wholesale',
  })
  t.equal(next.adcp_error?.code, 'VERSION_UNSUPPORTED')
})
