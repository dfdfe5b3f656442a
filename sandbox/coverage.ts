/**
 * How much of the inventory a signal covers, as an agent estimates it (specification, "CoverageForecast"): exclusive
 * buckets with the absent one, overlapping ones for values that a person may share, or the legacy scalar alone.
 */
import type { CoverageForecast } from '../src/adcp/coverage-forecast.js'
import type { SignalRow } from '../src/adcp/signal.js'
import type { Market, MarketSignal } from './market.js'
import type { Profile } from './profiles.js'

type Coverage = Pick<SignalRow, 'coverage_percentage'> & { coverage_forecast?: CoverageForecast }
type Point = CoverageForecast['points'][number]

const ESTIMATE = { method: 'estimate', forecast_range_unit: 'availability' } as const

function rate(share: number): number {
  return Math.round(share * 10_000) / 10_000
}

function point(signal: MarketSignal, impressions: number, share: number, value?: string | null): Point {
  const presence = value === null ? 'absent' : 'present'
  return {
    label: value === null ? 'Not in segment' : (value ?? 'In segment'),
    dimensions: [
      {
        kind: 'signal',
        signal_ref: signal.ref,
        ...(value === undefined ? {} : { signal_value: value }),
        presence,
      },
    ],
    metrics: { impressions: { mid: Math.round(impressions * share) }, coverage_rate: { mid: rate(share) } },
  }
}

/** Splits a share over values so that the first ones are the larger. */
function shares(share: number, values: number): number[] {
  return Array.from(
    { length: values },
    (_, place) => (share * 2 * (values - place)) / (values * (values + 1)),
  )
}

/** The scalar is always there; the forecast for every second signal, when the agent gives forecasts at all. */
export function coverageOf(market: Market, profile: Profile, signal: MarketSignal): Coverage {
  const { index, stance, place } = signal
  const own = market.chance(index, profile.handlePrefix) * 0.04
  const share = rate(0.01 + 0.3 * market.chance(index, 'coverage') ** 2 + own)
  const coverage_percentage = Math.round(share * 10_000) / 100
  if (!profile.forecasts || stance.range || market.chance(index, 'forecast') < 0.5)
    return { coverage_percentage }
  const impressions = 40_000_000 + Math.floor(400 * market.chance(index, 'inventory')) * 1_000_000
  const scope = { kind: 'inventory', label: `Addressable impressions per month, ${place.label}` }
  const absent = point(signal, impressions, 1 - share, null)
  if (!stance.values) {
    return {
      coverage_percentage,
      coverage_forecast: {
        ...ESTIMATE,
        scope,
        bucket_semantics: 'exclusive',
        bucket_completeness: 'complete',
        points: [point(signal, impressions, share), absent],
      },
    }
  }
  const values = shares(share, stance.values.length).map((part, place) =>
    point(signal, impressions, stance.multiValued ? part * 1.6 : part, stance.values?.[place]),
  )
  return {
    coverage_percentage,
    coverage_forecast: stance.multiValued
      ? {
          ...ESTIMATE,
          scope,
          bucket_semantics: 'overlapping',
          bucket_completeness: 'partial',
          points: [point(signal, impressions, share), ...values],
        }
      : {
          ...ESTIMATE,
          scope,
          bucket_semantics: 'exclusive',
          bucket_completeness: 'complete',
          points: [...values, absent],
        },
  }
}
