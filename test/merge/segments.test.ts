import { test } from 'tap'
import type { PricingOption } from '../../src/adcp/signal.js'
import { ask, emptyFeed, publish } from '../feed/feed-of.js'
import { AUTHORIZED, agentUrl, listing, sliceOf, UNVERIFIABLE } from '../feed/world.js'
import { offer, rowOf } from './offers.js'

const cpm = (price: number): PricingOption[] => [
  { pricing_option_id: 'po', model: 'cpm', cpm: price, currency: 'USD' },
]
const cheap = {
  signal_agent_segment_id: 'cheap',
  pricing_options: cpm(1),
  restricted_attributes: ['age'],
  deployments: [{ type: 'platform' as const, platform: 'one', is_live: true }],
}
const dear = {
  signal_agent_segment_id: 'dear',
  pricing_options: cpm(9),
  restricted_attributes: ['health_data'],
  policy_categories: ['health'],
  deployments: [{ type: 'platform' as const, platform: 'two', is_live: true }],
}

test('an upstream that sells a signal as two segments has two offers: nothing of either is lost', (t) => {
  const offers = [offer('north', dear), offer('north', cheap)]
  const row = rowOf(offers)
  t.match(row.pricing_options, [{ cpm: 1 }, { cpm: 9 }])
  t.match(row.deployments, [{ platform: 'one' }, { platform: 'two' }])
  t.same(row.restricted_attributes, ['age', 'health_data'])
  t.same(row.policy_categories, ['health'])
  const handles = row.ext.tributary.offers.map(({ handle }) => handle)
  t.equal(new Set(handles).size, 2)
  t.same(rowOf([...offers].reverse()), row)
  t.same(rowOf([offer('north', cheap)]).ext.tributary.offers[0]?.handle, handles[0], 'whatever else is sold')
  t.end()
})

test('no upstream can choose a segment that makes its offer pass for that of another', (t) => {
  // Their hashes begin with the same 48 bits: found in half a minute among two million segments of the first.
  const honest = { signal_agent_segment_id: 'seg1419839', pricing_options: cpm(5) }
  const chosen = { signal_agent_segment_id: 'e8c83af9', pricing_options: cpm(1) }
  const feed = emptyFeed()
  publish(feed, [sliceOf('north', [listing('s', honest)]), sliceOf('evil', [listing('s', chosen)])])
  const [row] = ask(feed, {}).signals
  t.match(row?.pricing_options, [{ cpm: 1 }, { cpm: 5 }], 'neither price is hidden')
  for (const { upstream, handle } of row?.ext.tributary.offers ?? []) {
    t.same(
      feed.resolve(handle)?.offers.map((offer) => offer.upstream),
      [upstream],
    )
  }
  t.end()
})

test('an offer handle or an option id of two segments leads to one of them', (t) => {
  const feed = emptyFeed()
  publish(feed, [sliceOf('north', [listing('s', dear), listing('s', cheap)])])
  const [row] = ask(feed, {}).signals
  for (const [at, segmentId] of ['cheap', 'dear'].entries()) {
    for (const pin of [
      row?.ext.tributary.offers[at]?.handle,
      row?.pricing_options?.[at]?.pricing_option_id,
    ]) {
      const offers = feed.resolve(pin as string)?.offers
      t.match(offers, [{ agentUrl: agentUrl('north'), segmentId }])
      t.equal(offers?.length, 1)
    }
  }
  t.end()
})

test('an authorized offer that no country is left for still restricts; one without a say does not', (t) => {
  const nowhere = { outcome: 'authorized' as const, entries: [0], countries: ['DE'] }
  const row = rowOf([
    offer('north', { ...cheap, countries: ['US'] }, nowhere),
    offer('south', {}, AUTHORIZED),
    offer('west', dear, UNVERIFIABLE),
  ])
  t.same(row.restricted_attributes, ['age'])
  t.equal(row.ext.tributary.offers.length, 1)
  t.end()
})
