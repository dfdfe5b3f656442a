import fc from 'fast-check'
import { test } from 'tap'
import { criteriaOf, type Selection } from '../../src/feed/query.js'
import { proven } from '../support/proven.js'
import { ask, feedOf } from './feed-of.js'
import { listing } from './world.js'

const feed = feedOf([listing('a'), listing('b', { signal_type: 'owned' })])
const version = (query: Selection) => ask(feed, query).feedVersion

/** An equivalent way to write the same filters: other order, repeats, omitted written as empty. */
function respelled(filters: Record<string, unknown>, turn: number): Record<string, unknown> {
  const names = Object.keys(filters)
  const rotated = [...names.slice(turn % (names.length || 1)), ...names.slice(0, turn % (names.length || 1))]
  const spelled = Object.fromEntries(
    rotated.map((name) => {
      const value = filters[name]
      return [name, Array.isArray(value) ? [...value, ...value].reverse() : value]
    }),
  )
  return { ...spelled, min_coverage_percentage: spelled.min_coverage_percentage ?? 0, anything: null }
}

const anyFilters = fc.record(
  {
    catalog_types: fc.subarray(['marketplace', 'custom', 'owned']),
    data_providers: fc.array(fc.constantFrom('Provider Inc', 'x.example')),
    max_cpm: fc.constantFrom(0, 1, 5),
    max_percent: fc.constantFrom(10, 100),
    min_coverage_percentage: fc.constantFrom(0, 10),
    grown: fc.oneof(
      fc.constant(1),
      fc.array(fc.constantFrom('x', 'y')),
      fc.record({ b: fc.nat(2), a: fc.nat(2) }),
    ),
  },
  { requiredKeys: [] },
)

test('equivalent filters have one version', (t) => {
  proven(
    t,
    500,
    fc.property(anyFilters, fc.nat(9), (filters, turn) => {
      const again = respelled(filters, turn)
      return (
        criteriaOf({ filters }).tuple === criteriaOf({ filters: again }).tuple &&
        version({ filters }) === version({ filters: again })
      )
    }),
  )
  t.end()
})

test('omitted, empty and default values are one', (t) => {
  const plain = version({})
  const every = ['owned', 'custom', 'marketplace']
  t.equal(version({ filters: {} }), plain)
  t.equal(version({ filters: { catalog_types: every } }), plain)
  t.equal(version({ filters: { max_percent: 100, min_coverage_percentage: 0, data_providers: [] } }), plain)
  t.equal(version({ filters: { grown: [], other: {}, more: null } }), plain)
  t.equal(version({ destinations: [], countries: [] }), plain)
  t.end()
})

test('different tuples never share a version, even where they select the same rows', (t) => {
  const queries: Selection[] = [
    {},
    { filters: { max_cpm: 100 } },
    { filters: { max_cpm: 101 } },
    { filters: { max_percent: 99 } },
    { filters: { data_providers: ['provider inc'] } },
    { filters: { data_providers: ['provider.example'] } },
    { filters: { grown: 1 } },
    { filters: { grown: '1' } },
    { filters: { grown: { a: 1 } } },
    { filters: { grown: ['a', '1'] } },
    { countries: ['DE'] },
    { destinations: [{ type: 'platform', platform: 'the-trade-desk' }] },
    { destinations: [{ type: 'platform', platform: 'the-trade-desk', account: 'a' }] },
  ]
  t.equal(new Set(queries.map(version)).size, queries.length)
  t.end()
})
