import { test } from 'tap'
import type { CoverageForecast } from '../../src/adcp/signal.js'
import { offer, rowOf } from './offers.js'

function forecast(rates: number[], completeness: 'complete' | 'partial' = 'partial'): CoverageForecast {
  const elsewhere = { scope: 'product' as const, signal_id: 'elsewhere' }
  return {
    method: 'estimate',
    forecast_range_unit: 'availability',
    scope: { kind: 'inventory', label: 'all' },
    bucket_semantics: 'exclusive',
    bucket_completeness: completeness,
    points: rates.map((mid, at) => ({
      dimensions: [
        at === 0
          ? { kind: 'signal', signal_ref: elsewhere, signal_value: null, presence: 'absent' as const }
          : { kind: 'signal', signal_ref: elsewhere, signal_value: `v${at}`, presence: 'present' as const },
      ],
      metrics: { coverage_rate: { mid } },
    })),
  }
}

test('the scalar agrees with the absent bucket, whatever the upstream said', (t) => {
  const row = rowOf([offer('north', { coverage_percentage: 99, coverage_forecast: forecast([0.9, 0.1]) })])
  t.equal(row.coverage_percentage, 10)
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

test('every dimension names the signal it stands in', (t) => {
  const row = rowOf([offer('north', { coverage_forecast: forecast([0.5, 0.5]) })])
  const { points } = row.coverage_forecast as CoverageForecast
  for (const point of points) t.same(point.dimensions[0]?.signal_ref, row.signal_ref)
  t.end()
})

test('the value of a bucket is published as it came: a text, a number or a boolean', (t) => {
  const given = forecast([0.7, 0.1, 0.1, 0.1])
  const values = ['high', 18, true]
  values.forEach((value, at) => {
    for (const dimension of given.points[at + 1]?.dimensions ?? []) dimension.signal_value = value
  })
  const row = rowOf([offer('north', { coverage_forecast: given })])
  const { points } = row.coverage_forecast as CoverageForecast
  t.same(
    points.map(({ dimensions }) => dimensions[0]?.signal_value),
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
  t.end()
})
