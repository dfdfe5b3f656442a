import fc from 'fast-check'
import { test } from 'tap'
import type { Listing } from '../../src/upstreams/rows/slice.js'
import { proven } from '../support/proven.js'
import { merge, offer, rowOf } from './offers.js'

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
    20,
    fc.property(sizes, (counts) => {
      const { contributes } = merge(counts.map((count, at) => listing(`u${at}`, count)))
      const parts = counts.map((count) => count + 1) // and a price
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
