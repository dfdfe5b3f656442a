/**
 * How much of the inventory a signal covers: one upstream's estimate, never a sum (docs/decisions.md#merging;
 * specification, "CoverageForecast"). The most specific forecast is published; the other offers' scalars stay under
 * provenance.
 */

import type { SignalRef } from '../adcp/reference.js'
import { type CoverageForecast, forecastPercentage } from '../adcp/signal.js'
import type { Offer } from './offer.js'
import { forecastConforms } from './published.js'

type MergedCoverage = {
  /** Index of the offer that the estimate comes from; -1 when no offer gives one. */
  readonly offer: number
  readonly percentage: number | undefined
  readonly forecast: CoverageForecast | undefined
}

/** More buckets win, then a complete partition; the upstream order decides a tie. */
function isMoreSpecific(a: CoverageForecast, b: CoverageForecast): boolean {
  if (a.points.length !== b.points.length) return a.points.length > b.points.length
  return a.bucket_completeness === 'complete' && b.bucket_completeness === 'partial'
}

/**
 * Rewrites every signal dimension to name the enclosing signal (schema core/signal-coverage-forecast, identity match).
 */
function renamed(forecast: CoverageForecast, ref: SignalRef): CoverageForecast {
  const points = forecast.points.map(({ label, dimensions, metrics }) => ({
    ...(label === undefined ? {} : { label }),
    dimensions: dimensions.map(({ kind, presence, signal_value }) => ({
      kind,
      signal_ref: ref,
      ...(signal_value === undefined ? {} : { signal_value }),
      presence,
    })),
    metrics,
  }))
  const { method, forecast_range_unit, scope, bucket_semantics, bucket_completeness } = forecast
  return { method, forecast_range_unit, scope, bucket_semantics, bucket_completeness, points }
}

/** The estimate that a signal publishes. `ref`: the signal's own reference. */
export function mergeCoverage(offers: readonly Pick<Offer, 'listing'>[], ref: SignalRef): MergedCoverage {
  let best: CoverageForecast | undefined
  let offer = -1
  offers.forEach(({ listing }, index) => {
    const forecast = listing.coverage_forecast
    if (!forecast || !forecastConforms(forecast)) return
    if (best && !isMoreSpecific(forecast, best)) return
    best = forecast
    offer = index
  })
  if (best) {
    const percentage = forecastPercentage(best) ?? offers[offer]?.listing.coverage_percentage
    return { offer, forecast: renamed(best, ref), percentage }
  }
  offer = offers.findIndex(({ listing }) => listing.coverage_percentage !== undefined)
  const percentage = offers[offer]?.listing.coverage_percentage
  return { offer, forecast: undefined, percentage }
}
