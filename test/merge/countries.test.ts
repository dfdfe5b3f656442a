import { test } from 'tap'
import type { Verdict } from '../../src/authz/rules/verdict.js'
import { mergeSignal } from '../../src/merge/merged-signal.js'
import { IDENTITY, merge, offer, rowOf } from './offers.js'

const grantedIn = (...countries: string[]): Verdict => ({ outcome: 'authorized', entries: [0], countries })

test('an offer may be used where provider, authorization and listing all allow it', (t) => {
  const row = rowOf([offer('north', { countries: ['US', 'FR', 'DE'] }, grantedIn('FR', 'DE', 'GB'))], {
    definition: { countries: ['DE', 'GB', 'US'] },
  })
  t.same(row.countries, ['DE'])
  t.end()
})

test('an offer that is left without a country is no offer', (t) => {
  const nowhere = offer('north', { countries: ['US'] }, grantedIn('DE'))
  t.same(mergeSignal(IDENTITY, [nowhere], 'strict'), { kind: 'withheld', reason: 'no_country_left' })
  t.same(rowOf([nowhere, offer('south', { countries: ['FR'] })]).countries, ['FR'])
  t.end()
})

test('a signal may be used where one of its offers may; each offer keeps its own bound', (t) => {
  const offers = [offer('north', { countries: ['DE'] }), offer('south', { countries: ['FR', 'US'] })]
  const row = rowOf(offers)
  t.same(row.countries, ['DE', 'FR', 'US'])
  t.match(row.ext.tributary.offers, [{ countries: ['DE'] }, { countries: ['FR', 'US'] }])
  t.ok(merge(offers).mixed)
  t.notOk('countries' in rowOf([...offers, offer('west')]), 'no bound is known for one of them')
  t.end()
})

test('no restriction is lost, not even one in a word that responses do not know yet', (t) => {
  const row = rowOf(
    [
      offer('north', { restricted_attributes: ['health_data', 'shoe_size'], policy_categories: ['b'] }),
      offer('south', { restricted_attributes: ['age'] }),
    ],
    { definition: { policy_categories: ['a'] } },
  )
  t.same(row.restricted_attributes, ['age', 'health_data'])
  t.same(row.policy_categories, ['a', 'b'])
  t.match(row.ext.tributary, { restricted_attributes: ['shoe_size'] })
  t.end()
})
