import fc from 'fast-check'
import { test } from 'tap'
import type { Listing } from '../../src/upstreams/rows/slice.js'
import { proven } from '../support/proven.js'
import { merge, offer, rowOf, rowText } from './offers.js'

const deployments = (name: string, count: number): Listing['deployments'] =>
  Array.from({ length: count }, (_, at) => ({ type: 'platform', platform: `${name} ${at}`, is_live: false }))

const prices = (count: number): NonNullable<Listing['pricing_options']> =>
  Array.from({ length: count }, (_, at) => ({
    ...{ pricing_option_id: `po${at}`, model: 'cpm', cpm: at + 1, currency: 'USD' },
  }))

const listing = (name: string, count: number) => offer(name, { deployments: deployments(name, count) })

test('of offers that list too much together the largest give way', (t) => {
  const offers = [listing('flood', 5_900), listing('honest', 300), listing('other', 3)]
  t.same(merge(offers).contributes, [false, true, true])
  const row = rowOf(offers)
  t.same(
    row.ext.tributary.offers.map(({ upstream }) => upstream),
    ['honest', 'other'],
  )
  t.equal(row.deployments.length, 303)
  t.same(merge([listing('alone', 7_000)]).contributes, [true], 'whoever is alone takes room from nobody')
  const priced = offer('priced', { pricing_options: prices(5_990) })
  t.same(merge([priced, listing('honest', 30)]).contributes, [false, true], 'prices count as well')
  t.end()
})

test('an offer gives way only to smaller ones, and only where there is no room', async (t) => {
  const sizes = fc.array(fc.integer({ min: 1, max: 4_000 }), { minLength: 2, maxLength: 5 })
  proven(
    t,
    10,
    fc.property(sizes, (counts) => {
      const { contributes } = merge(counts.map((count, at) => listing(`u${at}`, count)))
      const parts = counts.map((count) => count + 2) // a price, and the offer itself
      const sum = (of: readonly number[]) => of.reduce((all, one) => all + one, 0)
      const kept = parts.filter((_, at) => contributes[at])
      if (sum(parts) <= 6_000 && kept.length < parts.length) throw new Error('there was room')
      if (kept.length > 1 && sum(kept) > 6_000) throw new Error('there was no room')
      const largestKept = Math.max(...kept)
      const smallestLeft = Math.min(...parts.filter((_, at) => !contributes[at]), Number.POSITIVE_INFINITY)
      if (smallestLeft < largestKept) throw new Error(`${smallestLeft} gave way to ${largestKept}`)
    }),
  )
})

const segments = (upstream: string, count: number, more: Partial<Listing> = {}) =>
  Array.from({ length: count }, (_, at) =>
    offer(upstream, { deployments: [], ...more, signal_agent_segment_id: `segment ${at}` }),
  )

test('an upstream that sells a signal as thousands of segments takes no room from another', (t) => {
  const honest = [listing('honest', 900), listing('other', 3)]
  const offers = [...segments('flood', 7_000), ...honest]
  const { contributes } = merge(offers)
  t.same(contributes.slice(-2), [true, true])
  const { ext } = rowOf(offers)
  t.ok(ext.tributary.offers.length < 6_000, 'an offer takes room itself, whatever it lists')
  t.ok(ext.tributary.offers.length > 2_000, 'and room is not wasted')
  t.same(rowOf([...offers].reverse()), rowOf(offers))
  t.end()
})

test('what a row says is bounded in bytes as well, and a restriction is kept of whoever has no room', (t) => {
  const words = (prefix: string) =>
    Array.from({ length: 400 }, (_, at) => `${prefix} ${at} ${'w'.repeat(490)}`)
  const offers = [
    ...Array.from({ length: 60 }, (_, at) =>
      offer('wordy', {
        signal_agent_segment_id: `segment ${at}`,
        restricted_attributes: [...words(`r${at}`), ...(at === 59 ? [`genetic_data`] : [])],
        policy_categories: words(`p${at}`).slice(0, 50),
      }),
    ),
    listing('honest', 3),
  ]
  const signal = merge(offers)
  t.equal(signal.contributes.at(-1), true)
  t.equal(signal.contributes[59], false, 'the largest')
  t.ok(rowText(signal).length < 6_000 * 700 * 1.1, 'a row of a few megabytes at most')
  t.same(rowOf(offers).restricted_attributes, ['genetic_data'])
  t.end()
})

test('where upstreams list little, none of them loses an offer to one that lists much', (t) => {
  const world = fc.array(
    fc.record({ segments: fc.integer({ min: 1, max: 40 }), each: fc.integer({ min: 0, max: 1_000 }) }),
    { minLength: 2, maxLength: 6 },
  )
  proven(
    t,
    10,
    fc.property(world, (upstreams) => {
      const offers = upstreams.flatMap(({ segments: count, each }, at) =>
        segments(`u${at}`, count, { deployments: deployments(`u${at}`, each) }),
      )
      const { contributes } = merge(offers)
      for (const [at, { segments: count, each }] of upstreams.entries()) {
        const lost = offers.some(({ upstream }, place) => upstream === `u${at}` && !contributes[place])
        if (lost && count * (each + 2) <= 6_000 / upstreams.length) throw new Error(`u${at} lost an offer`)
      }
    }),
  )
  t.end()
})
