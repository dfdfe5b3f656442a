/** Under a 3.0 pin no signal goes out that lacks what that release requires of each: its schema has no such row. */
import { test } from 'tap'
import { answerFault } from '../support/adcp-answers.js'
import { feedOf, listing } from '../support/server-feed.js'
import { startServer } from '../support/server-fixture.js'

const whole = (id: string) => ({ ...listing(id), coverage_percentage: 12 })
const { pricing_options: _, ...unpriced } = whole('unpriced')
const { data_provider: __, ...unnamed } = whole('unnamed')
const listings = [whole('priced'), unpriced, listing('uncovered'), unnamed, whole('other')]
const feed = feedOf({ listings })
const names = (answer: { signals: { signal_ref: { signal_id: string } }[] }) =>
  answer.signals.map(({ signal_ref }) => signal_ref.signal_id).sort()

test('a 3.0 pin sees signals that are whole in 3.0 only, a later one all of them', async (t) => {
  const { call } = await startServer(t, { feed })
  const page = { discovery_mode: 'wholesale' }
  const old = await call('get_signals', { ...page, adcp_version: '3.0' })
  t.equal(old.adcp_version, '3.0')
  t.same(names(old), ['other', 'priced'])
  t.equal(old.pagination.total_count, 2)
  t.equal(answerFault('get_signals', old, '3.0'), undefined)
  const countries = { ...page, countries: ['DE'], adcp_version: '3.0' }
  t.same(names(await call('get_signals', countries)), ['other', 'priced'])
  const refs = listings.map(({ signal_ref }) => signal_ref)
  const lookup = await call('get_signals', { signal_refs: refs, adcp_version: '3.0' })
  t.same(names(lookup), ['other', 'priced'], 'looked up by their references, too')
  const now = await call('get_signals', page)
  t.same(names(now), ['other', 'priced', 'uncovered', 'unnamed', 'unpriced'])
  t.not(old.wholesale_feed_version, now.wholesale_feed_version)
  t.equal(
    (await call('get_signals', { ...page, adcp_version: '3.0', filters: { catalog_types: ['owned'] } }))
      .signals.length,
    0,
  )
})

test('without credentials there are no prices, so there is no 3.0 answer', async (t) => {
  const { post } = await startServer(t, { feed })
  const ask = async (pin: object) => {
    const params = { name: 'get_signals', arguments: { discovery_mode: 'wholesale', ...pin } }
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params }
    return (await post('/mcp', body, { 'mcp-protocol-version': '2025-06-18' })).json.result.structuredContent
  }
  t.match(await ask({}), { status: 'completed' })
  t.match(await ask({ adcp_version: '3.0' }), {
    status: 'failed',
    adcp_error: { code: 'AUTH_REQUIRED', suggestion: /3\.1/ },
  })
})
