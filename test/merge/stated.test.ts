/**
 * Whose word on a field is published, and who is named as saying another: by the simplest rules that could be right, for rows of
 * all offers and for those that countries leave.
 */
import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { test } from 'tap'
import type { Conflict, Definition } from '../../src/merge/definition.js'
import { mergeSignal, narrowRow, type PublishedRow } from '../../src/merge/merged-signal.js'
import type { Offer } from '../../src/merge/offer.js'
import type { Listing } from '../../src/upstreams/rows/slice.js'
import type { Row } from '../feed/reader.js'
import { proven } from '../support/proven.js'
import { IDENTITY, offer, rowText } from './offers.js'

/** Two values of each field that may be published, then those that may not. */
const VALUES: Readonly<Record<string, readonly [unknown, unknown, ...unknown[]]>> = {
  name: ['A', 'B'],
  description: ['What it means', ''],
  signal_type: ['owned', 'custom'],
  data_provider: ['One', 'Two'],
  value_type: ['binary', 'categorical', 'odd'],
  categories: [['a'], ['a', 'b'], []],
  range: [{ min: 1, max: 2 }, { min: 1, max: 3 }, { min: 1 }],
  data_sources: [['panel'], ['email', 'panel'], ['hearsay']],
  methodology: ['observed', 'modeled', 'guessed'],
  methodology_url: ['https://m.example/1', 'https://m.example/2', 'm'],
  taxonomy: [
    { ref: 'https://t.example/', values: [{ id: '1', path: '' }], etag: '' },
    { ref: 'https://t.example/', values: [{ id: '2' }], version: '' },
    { ref: 'https://t.example/', values: [{ id: '' }] },
  ],
  segmentation_criteria: ['who buys', 'who looks'],
  audience_expansion: [true, false, 'yes'],
  refresh_cadence: ['daily', 'weekly', 'often'],
  last_updated: ['2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z', 'today'],
  consent_basis: [['consent'], ['contract'], ['trust us']],
  art9_basis: ['explicit_consent', 'vital_interests', 'none'],
  demographic_predicate: [
    { age: { min: 18, include_unknown: false } },
    { age: { max: 34, include_unknown: false } },
    { age: {} },
    { age: { include_unknown: true } },
    { age: { min: 40, max: 18, include_unknown: false } },
  ],
}
/** Stated by the provider, or by all alike. */
const AGE = 'demographic_predicate'
const BASES = ['consent_basis', 'art9_basis', AGE]

const saying = fc.record(
  Object.fromEntries(Object.entries(VALUES).map(([field, values]) => [field, fc.constantFrom(...values)])),
  { requiredKeys: [] },
)
const place = fc.record({
  upstream: fc.constantFrom('alpha', 'beta', 'gamma'),
  signal_agent_segment_id: fc.constantFrom('x', 'y'),
})
const sold = fc.record({
  place,
  said: saying,
  isAged: fc.boolean(),
  countries: fc.option(fc.subarray(['DE', 'FR', 'US'], { minLength: 1 }), { nil: undefined }),
})
type Sold = typeof sold extends fc.Arbitrary<infer T> ? T : never
const nameOf = ({ place: { upstream, signal_agent_segment_id: segment } }: Sold) => `${upstream} ${segment}`
const anyOffers = fc.uniqueArray(sold, { minLength: 1, maxLength: 4, selector: nameOf })
/** As they are written, in whatever order they came. */
const inOrder = (all: readonly Sold[]) => [...all].sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1))

/** A listing that says nothing of these fields. */
const SILENT = Object.fromEntries(Object.keys(VALUES).map((field) => [field, undefined]))

const statedBy = (said: object | undefined, field: string): unknown => {
  const value = (said as Record<string, unknown> | undefined)?.[field]
  return VALUES[field]?.slice(0, 2).some((one) => isDeepStrictEqual(one, value)) ? value : undefined
}

/** They go with a type of value: who says another type than the row is not asked, and is named for the type. */
const OF_TYPE = ['categories', 'range']

function publishedOf(field: string, offers: readonly Sold[], definition: object | undefined): unknown {
  const type = OF_TYPE.includes(field) ? publishedOf('value_type', offers, definition) : undefined
  const sayIt = (said: object | undefined) => {
    const other = OF_TYPE.includes(field) ? (statedBy(said, 'value_type') ?? type) : type
    return other === type ? statedBy(said, field) : undefined
  }
  const own = sayIt(definition)
  const stated = offers.map(({ said }) => sayIt(said)).filter((value) => value !== undefined)
  if (!BASES.includes(field)) return own ?? stated[0]
  if (definition) return own
  return stated.every((value) => isDeepStrictEqual(value, stated[0])) ? stated[0] : undefined
}

/** Of these offers, the upstreams whose word on a field is not the one that is published. */
function othersOn(field: string, offers: readonly Sold[], value: unknown): string[] {
  if (OF_TYPE.includes(field) && value === undefined) return []
  const others = offers.filter(({ said }) => {
    const other = statedBy(said, field)
    return other !== undefined && !isDeepStrictEqual(other, value)
  })
  return [...new Set(others.map(({ place: { upstream } }) => upstream))]
}

test('the provider is believed first, then the first upstream; who says another thing in the row is named, and nobody else', (t) => {
  let narrowed = 0
  const property = fc.property(
    anyOffers,
    fc.option(saying, { nil: undefined }),
    fc.subarray(['DE', 'FR', 'US'], { minLength: 1 }),
    (all, definition, countries) => {
      const offers = all.map(({ place: { upstream, ...segment }, said, isAged, countries }): Offer => {
        const restricted_attributes = isAged ? ['age'] : undefined
        const more = { ...SILENT, ...segment, ...said, restricted_attributes, countries }
        return offer(upstream, more as unknown as Partial<Listing>)
      })
      const ordered = inOrder(all)
      // What a signal means for age is said only of one that is restricted for age.
      const fields = Object.keys(VALUES).filter((field) => field !== AGE || all.some(({ isAged }) => isAged))
      const expected = fields.map((field) => [field, publishedOf(field, ordered, definition)] as const)
      const conflicts = (among: readonly Sold[]) =>
        Object.fromEntries(
          expected
            .map(([field, value]) => [field, othersOn(field, among, value)])
            .filter(([, who]) => who?.length),
        )

      function check(row: Row, among: readonly Sold[]): void {
        for (const [field, value] of expected) assert.deepEqual(row[field], value, field)
        assert(fields.includes(AGE) || !(AGE in row))
        const { conflicts: told = [] } = row.ext.tributary as { conflicts?: Conflict[] }
        assert.deepEqual(
          Object.fromEntries(told.map(({ field, upstreams }) => [field, upstreams])),
          conflicts(among),
        )
      }

      const signal = mergeSignal(IDENTITY, offers, 'strict', definition as Definition | undefined)
      assert(signal.kind === 'signal')
      const whole = JSON.parse(`${rowText(signal)}}`) as Row
      check(whole, ordered)
      if (!signal.mixed) return // countries leave all of it, or nothing
      const left = ordered.filter(({ countries: own }) => !own || own.some((one) => countries.includes(one)))
      const row = narrowRow(whole as unknown as PublishedRow, offers, countries)
      assert.equal(row !== undefined, left.length > 0)
      if (!row) return
      if (left.length < ordered.length) narrowed += 1
      check(JSON.parse(`${rowText(row)}}`) as Row, left)
    },
  )
  t.doesNotThrow(() => proven(t, 500, property))
  t.ok(narrowed > 50, `${narrowed} rows were narrowed`)
  t.end()
})
