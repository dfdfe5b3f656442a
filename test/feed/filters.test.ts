import { test } from 'tap'
import type { PricingOption } from '../../src/adcp/signal.js'
import type { Selection } from '../../src/feed/query.js'
import { ask, emptyFeed, feedOf, ids, publish } from './feed-of.js'
import { listing, sliceOf } from './world.js'

const cpm = (...prices: number[]): PricingOption[] =>
  prices.map((price) => ({ pricing_option_id: `p${price}`, model: 'cpm', cpm: price, currency: 'USD' }))
const percent = (...rates: number[]): PricingOption[] =>
  rates.map((rate) => ({
    pricing_option_id: `r${rate}`,
    model: 'percent_of_media',
    percent: rate,
    currency: 'USD',
  }))

const feed = feedOf([
  listing('cheap', { pricing_options: cpm(1, 9), signal_type: 'owned', coverage_percentage: 5 }),
  listing('dear', { pricing_options: cpm(8, 9), coverage_percentage: 50 }),
  listing('share', { pricing_options: percent(10), data_provider: 'Acme Data' }),
  listing('large', { pricing_options: percent(30, 40), countries: ['DE', 'FR'] }),
  (({ pricing_options: _, coverage_percentage: __, ...row }) => row)(listing('free', { countries: ['US'] })),
  listing('abroad', { signal_type: 'custom', pricing_options: cpm(2) }, 'Other.example'.toLowerCase()),
])
const all = ['abroad', 'cheap', 'dear', 'free', 'large', 'share']
const without = (...left: string[]) => all.filter((id) => !left.includes(id))

const table: [string, Selection, string[]][] = [
  ['no filter restricts nothing', {}, all],
  ['catalog_types', { filters: { catalog_types: ['owned', 'custom'] } }, ['abroad', 'cheap']],
  ['data_providers by name, whatever its case', { filters: { data_providers: ['ACME data '] } }, ['share']],
  ['data_providers by domain', { filters: { data_providers: ['other.EXAMPLE'] } }, ['abroad']],
  ['data_providers by an unknown name', { filters: { data_providers: ['nobody'] } }, []],
  ['max_cpm excludes only where all CPM options exceed', { filters: { max_cpm: 2 } }, without('dear')],
  ['max_cpm is inclusive', { filters: { max_cpm: 8 } }, all],
  ['max_cpm 0 is a filter, not a default', { filters: { max_cpm: 0 } }, ['free', 'large', 'share']],
  ['max_percent likewise', { filters: { max_percent: 20 } }, without('large')],
  [
    'min_coverage_percentage against the scalar',
    { filters: { min_coverage_percentage: 10 } },
    without('cheap', 'free'),
  ],
  ['min_coverage_percentage 0 is the default', { filters: { min_coverage_percentage: 0 } }, all],
  ['countries: an unbounded signal is usable anywhere', { countries: ['US'] }, without('large')],
  ['countries: any of them is enough', { countries: ['FR', 'US'] }, all],
  ['filters add up', { filters: { max_cpm: 2, catalog_types: ['owned'] }, countries: ['DE'] }, ['cheap']],
]

for (const [rule, query, expected] of table) {
  test(rule, (t) => {
    const { signals, total } = ask(feed, query)
    t.same(ids(signals), expected)
    t.equal(total, expected.length)
    t.end()
  })
}

test('max_cpm compares prices of one currency: others are neither hidden nor taken for equal', (t) => {
  const priced = (id: string, prices: Record<string, number>) =>
    listing(id, {
      pricing_options: Object.entries(prices).map(([currency, price]) => ({
        ...{ pricing_option_id: currency, model: 'cpm' as const, cpm: price, currency },
      })),
    })
  const money = feedOf([
    priced('yen', { JPY: 590 }),
    priced('dollars', { USD: 9 }),
    priced('cheap_yen', { JPY: 300 }),
    priced('several', { JPY: 900, USD: 9 }),
  ])
  const found = (filters: object) => ids(ask(money, { filters: { ...filters } }).signals)
  const currency = (code: unknown) => ({ ext: { tributary: { currency: code } } })
  t.same(found({ max_cpm: 5 }), ['cheap_yen', 'several', 'yen'], 'dollars when nothing is said')
  t.same(found({ max_cpm: 400, ...currency('JPY') }), ['cheap_yen', 'dollars', 'several'])
  const usd = ask(money, { filters: { max_cpm: 5, ...currency('USD') } })
  t.equal(
    usd.feedVersion,
    ask(money, { filters: { max_cpm: 5 } }).feedVersion,
    'the default said is the default',
  )
  t.same(usd.warnings, [])
  const wrong = ask(money, { filters: { max_cpm: 5, ...currency('yen') } })
  t.match(wrong.warnings, [{ code: 'UNKNOWN_FILTER', field: 'filters.ext' }])
  t.end()
})

test('an unknown filter restricts nothing, is named, and has a version of its own', (t) => {
  const plain = ask(feed, {})
  const grown = ask(feed, { filters: { min_freshness: 3 } })
  t.same(ids(grown.signals), all)
  t.match(grown.warnings, [{ code: 'UNKNOWN_FILTER', severity: 'warning', field: 'filters.min_freshness' }])
  t.not(grown.feedVersion, plain.feedVersion)
  const hostile = ask(feed, { filters: { '<script>': 1 } })
  t.match(hostile.warnings, [{ code: 'UNKNOWN_FILTER', field: 'filters' }])
  t.notMatch(JSON.stringify(hostile.warnings), /script/)
  const many = Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`f${n}`, n]))
  t.ok(ask(feed, { filters: many }).warnings.length <= 20)
  t.not(ask(feed, { filters: many }).feedVersion, ask(feed, { filters: { ...many, f1: 0 } }).feedVersion)
  t.end()
})

test("vendors' filters restrict nothing, and the answer says so in words of its own", (t) => {
  const vendors = ask(feed, { filters: { ext: { acme: { score: 3 } } } })
  t.same(ids(vendors.signals), all)
  t.match(vendors.warnings, [{ code: 'UNKNOWN_FILTER', message: /vendor/, field: 'filters.ext' }])
  t.equal(vendors.warnings.length, 1)
  t.not(vendors.feedVersion, ask(feed, {}).feedVersion)
  t.same(ask(feed, { filters: { ext: {} } }).warnings, [])
  t.end()
})

test('fields chooses among what describes a signal; what identifies, activates and prices it stays', (t) => {
  const rich = feedOf([listing('s', { methodology: 'observed', countries: ['DE'], value_type: 'binary' })])
  const [row] = ask(rich, { fields: ['methodology', 'name'] }).signals
  t.equal(row?.methodology, 'observed')
  t.notOk('countries' in (row as object))
  t.notOk('value_type' in (row as object))
  for (const kept of [
    'signal_ref',
    'signal_id',
    'description',
    'signal_type',
    'coverage_percentage',
    'deployments',
    'pricing_options',
  ]) {
    t.ok(kept in (row as object), kept)
  }
  t.end()
})

test('where offers differ in their countries, a reader who names some sees no other offer or price', (t) => {
  const german = listing('s', {
    countries: ['DE'],
    deployments: [{ type: 'platform', platform: 'dv360', is_live: true }],
  })
  const french = listing('s', { countries: ['FR'], pricing_options: cpm(7) })
  const mixed = emptyFeed()
  publish(mixed, [sliceOf('north', [german]), sliceOf('south', [french])])
  const [row] = ask(mixed, { countries: ['FR'] }).signals
  t.match(row?.ext.tributary.offers, [{ upstream: 'south' }])
  t.match(row?.pricing_options, [{ cpm: 7 }])
  t.match(row?.deployments, [{ platform: 'the-trade-desk' }])
  t.equal(row?.deployments.length, 1)
  t.end()
})
