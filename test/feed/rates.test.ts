/** Prices in other currencies compare by a table of the configuration or not at all, and an answer says when they did. */
import { test } from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { createFeed } from '../../src/feed/feed.js'
import { converted, type Rates } from '../../src/feed/query.js'
import { ask, ids, publish } from './feed-of.js'
import { pageOf } from './reader.js'
import { anonymous, buyer, listing, sliceOf } from './world.js'

const priced = (id: string, prices: Record<string, number>) =>
  listing(id, {
    pricing_options: Object.entries(prices).map(([currency, price]) => ({
      ...{ pricing_option_id: currency, model: 'cpm' as const, cpm: price, currency },
    })),
  })

const LISTINGS = [
  priced('yen', { JPY: 590 }), // 3.95 USD
  priced('dear_yen', { JPY: 1_000 }), // 6.70 USD
  priced('dear_euros', { EUR: 5 }), // 5.40 USD
  priced('dollars', { USD: 4 }),
  priced('francs', { CHF: 90 }), // not in the table
  priced('several', { JPY: 9_000, USD: 90 }),
]
const table: Rates = {
  asOf: '2026-11-01',
  worth: new Map([
    ['USD', 1],
    ['EUR', 1.08],
    ['JPY', 0.0067],
  ]),
}

function feedWith(rates: () => Rates | undefined) {
  const feed = createFeed({ cursorSecret: 's', retain: { ms: 60_000, bytes: 2 ** 30 }, rates })
  publish(feed, [sliceOf('north', LISTINGS)])
  return feed
}
const inCurrency = (currency: string) => ({ ext: { tributary: { currency } } })
const all = ['dear_euros', 'dear_yen', 'dollars', 'francs', 'several', 'yen']

test('with a table, a price counts for what it is worth', (t) => {
  const feed = feedWith(() => table)
  const found = (filters: object) => ids(ask(feed, { filters: { ...filters } }).signals)
  t.same(found({ max_cpm: 5 }), ['dollars', 'francs', 'several', 'yen'])
  t.same(found({ max_cpm: 3.75, ...inCurrency('EUR') }), ['dollars', 'francs', 'several', 'yen'])
  t.same(found({ max_cpm: 590, ...inCurrency('JPY') }), ['francs', 'several', 'yen'])
  t.same(
    found({ max_cpm: 89, ...inCurrency('CHF') }),
    all.filter((id) => id !== 'francs'),
  )
  t.end()
})

test('the answer says by which rates, and shows prices as they are', (t) => {
  const feed = feedWith(() => table)
  const { warnings, signals } = ask(feed, { filters: { max_cpm: 5 } })
  t.match(warnings, [
    {
      ...{ code: 'PRICES_CONVERTED', severity: 'warning', field: 'filters.max_cpm' },
      details: { currency: 'USD', as_of: '2026-11-01' },
    },
  ])
  const yen = signals.find(({ signal_ref }) => signal_ref.signal_id === 'yen')
  t.match(yen?.pricing_options, [{ cpm: 590, currency: 'JPY' }])
  t.same(ask(feed, {}).warnings, [])
  t.same(ask(feed, { filters: { max_cpm: 5, ...inCurrency('CHF') } }).warnings, [], 'nothing was converted')
  t.match(ask(feed, { filters: { max_cpm: 5 } }, anonymous).warnings, [{ code: 'PRICING_UNAVAILABLE' }])
  t.end()
})

test('without a table nothing is converted; another table is another feed', (t) => {
  let rates: Rates | undefined
  const feed = feedWith(() => rates)
  const query = { filters: { max_cpm: 5 } }
  const plain = ask(feed, query)
  t.same(ids(plain.signals), all)
  t.same(plain.warnings, [])
  rates = table
  const converting = ask(feed, query)
  t.not(converting.feedVersion, plain.feedVersion)
  rates = { asOf: '2026-12-01', worth: new Map([...table.worth, ['JPY', 0.01]]) }
  const later = ask(feed, query)
  t.not(later.feedVersion, converting.feedVersion)
  t.notOk(ids(later.signals).includes('yen'))
  t.equal(
    ask(feed, {}).feedVersion,
    ask(
      feedWith(() => undefined),
      {},
    ).feedVersion,
    'what is not filtered stays',
  )
  t.end()
})

test('a walk over another table is told by another version to begin again, and its cursor is no error', (t) => {
  let rates: Rates | undefined = table
  const feed = feedWith(() => rates)
  const page = (cursor?: string, more: object = {}) =>
    feed.wholesale({ filters: { max_cpm: 5, ...more }, maxResults: 1, ...(cursor && { cursor }) }, buyer, 0)
  const first = pageOf(page())
  rates = { asOf: '2026-12-01', worth: new Map([...table.worth, ['JPY', 0.01]]) }
  const next = pageOf(page(first.cursor))
  t.not(next.feedVersion, first.feedVersion)
  t.equal(pageOf(page(next.cursor)).feedVersion, next.feedVersion)
  rates = undefined
  t.notOk([first.feedVersion, next.feedVersion].includes(pageOf(page(next.cursor)).feedVersion))
  t.match(page(first.cursor, inCurrency('EUR')), { error: { field: 'pagination.cursor' } }, 'another query')
  t.match(page(first.cursor, { max_cpm: 6 }), { error: { field: 'pagination.cursor' } })
  t.end()
})

test('a currency that the table does not have is not converted', (t) => {
  t.equal(converted(2, 'EUR', 'USD', table), 2.16)
  t.equal(converted(2, 'EUR', 'EUR', undefined), 2)
  t.equal(converted(2, 'EUR', 'USD', undefined), undefined)
  t.equal(converted(2, 'CHF', 'USD', table), undefined)
  t.end()
})

test('the table stands in the configuration', (t) => {
  const read = (currencies: object) => () => parseConfig('t', JSON.stringify({ currencies }), {})
  const rates = { EUR: 1.08 }
  t.same(
    [...(read({ as_of: '2026-11-01', rates })().rates?.worth ?? [])],
    [
      ['EUR', 1.08],
      ['USD', 1],
    ],
  )
  t.equal(read({ as_of: '2026-11-01', in: 'GBP', rates })().rates?.worth.get('GBP'), 1)
  t.throws(read({ rates }), { message: /currencies\.as_of/ })
  t.throws(read({ as_of: 'yesterday', rates }), { message: /currencies\.as_of/ })
  t.throws(read({ as_of: '2026-11-01', rates: { euro: 1 } }), { message: /currencies\.rates/ })
  t.throws(read({ as_of: '2026-11-01', rates: { EUR: 0 } }), { message: /currencies\.rates\.EUR/ })
  t.throws(read({ as_of: '2026-11-01', rates: { USD: 2 } }), { message: /currencies\.rates\.USD/ })
  t.end()
})
