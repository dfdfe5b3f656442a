import { test } from 'tap'
import type { Deployment, PricingOption } from '../../src/adcp/signal.js'
import type { Reader, Selection } from '../../src/feed/query.js'
import { ask, emptyFeed, publish } from './feed-of.js'
import { rowsOf } from './reader.js'
import { buyer, listing, sliceOf } from './world.js'

const cpm = (price: number): PricingOption[] => [
  { pricing_option_id: 'po', model: 'cpm', cpm: price, currency: 'USD' },
]
const x: Deployment = { type: 'platform', platform: 'X', is_live: true }
const german = listing('s1', {
  countries: ['DE'],
  coverage_percentage: 70,
  restricted_attributes: ['age'],
  pricing_options: cpm(3),
  deployments: [
    { ...x, activation_key: { type: 'segment_id', segment_id: 'AKEY' } },
    { type: 'platform', platform: 'ONLYDE', is_live: false },
  ],
})
const american = listing('s1', {
  countries: ['US'],
  coverage_percentage: 20,
  pricing_options: cpm(8),
  deployments: [
    { type: 'platform', platform: 'X', is_live: false, estimated_activation_duration_minutes: 60 },
  ],
})
const feed = emptyFeed()
publish(feed, [sliceOf('alpha', [german]), sliceOf('beta', [american])])

const granted: Reader = { ...buyer, grants: [{ type: 'platform', platform: 'X' }] }
const ref = { scope: 'data_provider' as const, data_provider_domain: 'provider.example', signal_id: 's1' }

function lookedUp(selection: Selection) {
  const page = feed.lookup({ ...selection, refs: [ref] }, granted)
  if (page.kind !== 'page') throw new Error('a page was expected')
  return rowsOf(page)
}

test('a reader who names countries sees what the offers usable there give, and nothing of the others', (t) => {
  for (const rows of [ask(feed, { countries: ['US'] }, granted).signals, lookedUp({ countries: ['US'] })]) {
    const [row] = rows
    t.same(row?.deployments, american.deployments)
    t.match(row?.pricing_options, [{ cpm: 8 }])
    t.equal(row?.pricing_options?.length, 1)
    t.same(row?.countries, ['US'])
    t.equal(row?.coverage_percentage, 20)
    t.match(row?.ext.tributary.offers, [{ upstream: 'beta' }])
    t.equal(row?.ext.tributary.offers.length, 1)
    t.same(row?.restricted_attributes, ['age'], 'a restriction is never lost')
    t.notMatch(JSON.stringify(rows), /AKEY|alpha|ONLYDE/)
  }
  t.match(JSON.stringify(ask(feed, { countries: ['DE', 'US'] }, granted).signals), /AKEY/)
  t.end()
})

test('filters judge the offers that are usable in the named countries', (t) => {
  const countries = ['US']
  const onlyGermany = [{ type: 'platform' as const, platform: 'ONLYDE' }]
  for (const left of [
    { filters: { max_cpm: 5 } },
    { filters: { min_coverage_percentage: 30 } },
    { destinations: onlyGermany },
  ]) {
    t.equal(ask(feed, left).signals.length, 1)
    t.equal(ask(feed, { ...left, countries: ['DE'] }).signals.length, 1)
    t.equal(ask(feed, { ...left, countries }).signals.length, 0)
    t.equal(lookedUp({ ...left, countries }).length, 0)
  }
  const partly = ask(feed, { countries, destinations: [...onlyGermany, { type: 'platform', platform: 'X' }] })
  t.match(partly.warnings, [{ code: 'PARTIAL_COVERAGE' }])
  t.end()
})

test('what only unusable offers change moves no token, and the narrowed row is the row without them', (t) => {
  const alone = emptyFeed()
  publish(alone, [sliceOf('beta', [{ ...american, restricted_attributes: ['age'] }])])
  const there = ask(feed, { countries: ['US'] }, granted)
  const here = ask(alone, { countries: ['US'] }, granted)
  t.same(there.signals, here.signals)
  t.same([there.feedVersion, there.pricingVersion], [here.feedVersion, here.pricingVersion])
  t.end()
})

test('an offer that lists no destination serves any in the countries that it is narrowed to', (t) => {
  const unlisted = listing('s1', { countries: ['US'], deployments: [], pricing_options: cpm(8) })
  const other = emptyFeed()
  publish(other, [sliceOf('alpha', [german]), sliceOf('beta', [unlisted])])
  const anywhere = { destinations: [{ type: 'platform' as const, platform: 'elsewhere' }] }
  const inUs = ask(other, { ...anywhere, countries: ['US'] }, granted)
  t.match(inUs.signals, [{ deployments: [], ext: { tributary: { offers: [{ upstream: 'beta' }] } } }])
  t.match(JSON.stringify(inUs.warnings), /not promised/, 'and that is said')
  t.same(ask(other, { ...anywhere, countries: ['DE'] }, granted).signals, [], 'the other lists its own')
  t.end()
})
