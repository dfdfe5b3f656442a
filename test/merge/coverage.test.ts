import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { test } from 'tap'
import type { CoverageForecast } from '../../src/adcp/coverage-forecast.js'
import type { Listing } from '../../src/upstreams/rows/slice.js'
import { adcpSchema, SCHEMAS_ABSENT } from '../support/adcp-schema.js'
import { nearForecast, validForecast } from '../support/forecasts.js'
import { proven } from '../support/proven.js'
import { offer, rowOf } from './offers.js'

type Point = CoverageForecast['points'][number]

const OWN = { scope: 'data_provider', data_provider_domain: 'provider.example', signal_id: 's' } as const

function forecast(rates: number[], completeness: 'complete' | 'partial' = 'partial'): CoverageForecast {
  const signal_ref = { scope: 'product' as const, signal_id: 's' }
  return {
    method: 'estimate',
    forecast_range_unit: 'availability',
    scope: { kind: 'inventory', label: 'all' },
    bucket_semantics: 'exclusive',
    bucket_completeness: completeness,
    points: rates.map((mid, at) => ({
      dimensions: [
        at === 0
          ? { kind: 'signal', signal_ref, signal_value: null, presence: 'absent' }
          : { kind: 'signal', signal_ref, signal_value: `v${at}`, presence: 'present' },
      ],
      metrics: { coverage_rate: { mid } },
    })),
  }
}

/** What is published of a forecast; undefined when it is left out. */
function published(given: unknown, more: Partial<Listing> = {}): CoverageForecast | undefined {
  return rowOf([offer('north', { coverage_forecast: given, ...more })]).coverage_forecast as
    | CoverageForecast
    | undefined
}

/** A forecast whose first point is changed. */
function changed(change: (point: Point) => object): CoverageForecast {
  const whole = forecast([0.5, 0.5])
  const [first, ...others] = whole.points
  return { ...whole, points: [{ ...first, ...change(first as Point) } as Point, ...others] }
}

/** One whose first signal dimension says this too. */
const naming = (more: object) =>
  changed(({ dimensions: [dimension] }) => {
    const { signal_ref: _, ...unnamed } = dimension ?? { kind: 'signal' }
    return { dimensions: [{ ...unnamed, ...more }] }
  })

test('the scalar agrees with the absent bucket, whatever the upstream said', (t) => {
  const row = rowOf([offer('north', { coverage_percentage: 99, coverage_forecast: forecast([0.9, 0.1]) })])
  t.equal(row.coverage_percentage, 10)
  t.end()
})

test('an absent bucket of a country, of a product or without a likely value says nothing of the scalar', (t) => {
  const inGermany = { kind: 'geo', geo_level: 'country', geo_code: 'DE' }
  for (const given of [
    changed(({ dimensions }) => ({ dimensions: [...dimensions, inGermany] })),
    changed(() => ({ product_id: 'p' })),
    changed(() => ({ metrics: { coverage_rate: { low: 0.8, high: 0.9 } } })),
  ]) {
    const row = rowOf([offer('north', { coverage_percentage: 12, coverage_forecast: given })])
    t.ok(row.coverage_forecast)
    t.equal(row.coverage_percentage, 12)
  }
  t.end()
})

test('the most specific forecast is published; what others estimate stays under provenance', (t) => {
  const row = rowOf([
    offer('north', { coverage_percentage: 50 }),
    offer('south', { coverage_percentage: 7, coverage_forecast: forecast([0.9, 0.1]) }),
    offer('west', { coverage_percentage: 8, coverage_forecast: forecast([0.8, 0.1, 0.1]) }),
  ])
  t.equal(row.coverage_percentage, 20)
  t.match(row.ext.tributary.offers, [
    { upstream: 'north', coverage_percentage: 50 },
    { upstream: 'south', coverage_percentage: 7 },
    { upstream: 'west' },
  ])
  t.end()
})

test('every dimension names the signal it stands in by its reference, however its upstream named it', (t) => {
  for (const name of [
    { signal_ref: OWN },
    { signal_ref: { ...OWN, data_provider_domain: 'Provider.example' } },
    { signal_ref: { scope: 'product', signal_id: 's' } },
    { signal_id: 's' },
    { signal_id: 's', signal_ref: OWN },
    {},
  ]) {
    for (const { dimensions } of published(naming(name))?.points ?? [undefined as unknown as Point]) {
      t.same(dimensions[0]?.signal_ref, OWN, JSON.stringify(name))
      t.notOk('signal_id' in (dimensions[0] ?? {}))
    }
  }
  const legacy = { signal_id: { source: 'agent', agent_url: 'https://a.example/', id: 'old' } } as const
  t.ok(published(naming({ signal_id: 'old' }), legacy), 'by the legacy id of the row')
  t.end()
})

test('a forecast that names another signal is not said of this one', (t) => {
  for (const name of [
    { signal_id: 'other' },
    { signal_ref: { ...OWN, signal_id: 'other' } },
    { signal_ref: { ...OWN, data_provider_domain: 'other.example' } },
    { signal_ref: { scope: 'signal_source', signal_source_url: 'https://a.example/', signal_id: 's' } },
    { signal_id: 'other', signal_ref: OWN },
    { signal_ref: 's' },
  ]) {
    t.equal(published(naming(name)), undefined, JSON.stringify(name))
  }
  t.end()
})

test('the value of a bucket is published as it came: a text, a number or a boolean', (t) => {
  const given = forecast([0.7, 0.1, 0.1, 0.1])
  const values = ['high', 18, true]
  values.forEach((value, at) => {
    for (const dimension of given.points[at + 1]?.dimensions ?? []) dimension.signal_value = value
  })
  t.same(
    published(given)?.points.map(({ dimensions }) => dimensions[0]?.signal_value),
    [null, ...values],
  )
  t.end()
})

test('a forecast that a response may not carry is left out', (t) => {
  const broken = forecast([0.5, 0.5])
  broken.scope.kind = 'galaxy'
  const row = rowOf([offer('north', { coverage_percentage: 12, coverage_forecast: broken })])
  t.notOk('coverage_forecast' in row)
  t.equal(row.coverage_percentage, 12)
  const repeated = changed(({ dimensions }) => ({ dimensions: [...dimensions, ...dimensions] }))
  const inTime = { kind: 'time', start_time: '2026-01-01T00:00:00Z', end_time: '2026-01-02T00:00:00Z' }
  for (const given of [
    'high',
    [],
    {},
    { ...forecast([0.5]), points: { length: 1 } },
    { ...forecast([0.5]), points: Array.from({ length: 1_001 }, () => forecast([0.5]).points[0]) },
    { ...forecast([0.5]), scope: { kind: 'product', label: 'without its id' } },
    repeated,
    changed(() => ({ dimensions: [{ kind: 'geo', geo_level: 'country', geo_code: 'DE' }] })),
    changed(({ dimensions }) => ({ dimensions: [...dimensions, inTime] })),
    changed(() => ({ metrics: { coverage_rate: { low: 0.1 } } })),
    naming({ presence: 'present' }),
    naming({ more: 1 }),
  ]) {
    t.equal(published(given), undefined, JSON.stringify(given).slice(0, 200))
  }
  t.end()
})

test('what says nothing, and what the protocol does not know beside the points, is not published', (t) => {
  const given = {
    ...forecast([0.5, 0.5]),
    ...{ valid_until: null, currency: 'EUR', ext: { kept: null, list: [] } },
    scope: { kind: 'custom', label: 'x', product_id: null, countries: [], seat: 'a' },
  }
  const expected = published(forecast([0.5, 0.5]))
  t.same(published(given), {
    ...expected,
    scope: { kind: 'custom', label: 'x', seat: 'a' },
    ext: { kept: null, list: [] },
  })
  t.end()
})

/** With the enclosing signal's reference in the place of whatever names it. */
function renamed(given: unknown): unknown {
  if (typeof given !== 'object' || given === null) return given
  if (Array.isArray(given)) return given.map(renamed)
  const { signal_ref: _, signal_id: __, ...others } = given as Record<string, unknown>
  const isSignal = others.kind === 'signal'
  const entries = Object.entries(isSignal ? others : given).map(([name, held]) => [name, renamed(held)])
  return { ...Object.fromEntries(entries), ...(isSignal && { signal_ref: OWN }) }
}

test('a valid forecast is published whole, with its end, its qualifiers and all its dimensions', (t) => {
  const property = fc.property(validForecast, (given) => {
    const points = (given.points as Point[]).map(({ vendor_metric_values: values, ...point }) =>
      Array.isArray(values) && values.length > 0 ? { ...point, vendor_metric_values: values } : point,
    )
    assert.deepEqual(published(given), renamed({ ...given, points }))
  })
  t.doesNotThrow(() => proven(t, 200, property))
  t.end()
})

function namesAnother({ points }: CoverageForecast): boolean {
  const refs = points.flatMap(({ dimensions }) =>
    dimensions.map(({ signal_ref, signal_id }) => ({
      signal_id: 's',
      ...signal_ref,
      ...(signal_id !== undefined && { signal_id }),
    })),
  )
  return refs.some(
    (ref) =>
      !isDeepStrictEqual(ref, { signal_id: 's' }) &&
      !isDeepStrictEqual(ref, OWN) &&
      !isDeepStrictEqual(ref, { scope: 'product', signal_id: 's' }),
  )
}

test('what is published is valid by the schemas of 3.1 and 3.2, and what both allow is published', {
  skip: SCHEMAS_ABSENT,
}, (t) => {
  const releases = ['3.1.19', '3.2.0-beta.5'] as const
  const schemas = releases.map((release) => adcpSchema('core/signal-coverage-forecast.json', release))
  const isValid = (value: unknown) => schemas.every((validate) => validate(value))
  let left = 0
  const property = fc.property(fc.oneof(validForecast, nearForecast), (given) => {
    const shown = published(given)
    if (shown) return assert.ok(isValid(shown), JSON.stringify(shown))
    left += 1
    assert.ok(!isValid(given) || namesAnother(given as CoverageForecast), JSON.stringify(given))
  })
  t.doesNotThrow(() => proven(t, 400, property))
  t.ok(left > 40, `${left} were left out`)
  t.end()
})
