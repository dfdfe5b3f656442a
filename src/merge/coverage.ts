/**
 * How much of the inventory a signal covers: one upstream's estimate, never a sum (docs/decisions.md#merging). A forecast is
 * published as it came, but for what the protocol does not know and for the names in it: each of its points names the
 * enclosing signal by its reference (schema core/signal-coverage-forecast, identity match). One that a response may not carry is
 * left out whole, because without some points, dimensions or qualifiers it would say something else.
 */
import {
  type CoverageForecast,
  FORECAST_MEMBERS,
  forecastPercentage,
  isCoverageForecast,
} from '../adcp/coverage-forecast.js'
import { isRecord } from '../adcp/json.js'
import { refFromLegacy, type SignalRef } from '../adcp/signal.js'
import type { Listing } from '../upstreams/rows/slice.js'

/** Of a listing, what its estimate is made from. */
export type Estimated = {
  listing: Pick<Listing, 'signal_ref' | 'signal_id' | 'coverage_percentage' | 'coverage_forecast'>
}

type MergedCoverage = {
  /** Index of the offer that the estimate comes from; -1 when no offer gives one. */
  readonly offer: number
  readonly percentage: number | undefined
  readonly forecast: CoverageForecast | undefined
}

/** Objects that mean what they hold only to their seller. */
const OPEN: ReadonlySet<string> = new Set(['ext', 'breakdown'])

/** A null or an empty list means that there is none, but for the value of the absent bucket (docs/upstreams.md). */
const isNone = (name: string, value: unknown) =>
  (value === null && name !== 'signal_value') || (Array.isArray(value) && value.length === 0)

/** Whether something is to be left out: nearly never, so it is found out without making anything. */
function saysNone(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return value.some(saysNone)
  for (const name in value) {
    const held = (value as Record<string, unknown>)[name]
    if (isNone(name, held) || (typeof held === 'object' && !OPEN.has(name) && saysNone(held))) return true
  }
  return false
}

/** The same value without members that say nothing. */
function without(value: unknown): unknown {
  if (!saysNone(value)) return value
  if (Array.isArray(value)) return value.map(without)
  const said = Object.entries(value as object).filter(([name, held]) => !isNone(name, held))
  return Object.fromEntries(said.map(([name, held]) => [name, OPEN.has(name) ? held : without(held)]))
}

/** Whether the reference in a dimension is that of its row. A source's url does not count there either (merge/identity.ts). */
function isSame(named: unknown, own: SignalRef): boolean {
  if (!isRecord(named) || named.signal_id !== own.signal_id) return false
  if (named.scope === 'product') return true
  if (named.scope !== own.scope) return false
  if (own.scope !== 'data_provider') return true
  return String(named.data_provider_domain).toLowerCase() === own.data_provider_domain
}

/** Whether a dimension is about the signal of its row, which it may name, by a reference or by the id alone, or not name. */
function isAbout({ signal_ref: ref, signal_id: id }: Record<string, unknown>, own: readonly SignalRef[]) {
  if (own.length === 0) return true
  if (ref !== undefined && !own.some((one) => isSame(ref, one))) return false
  return id === undefined || own.some(({ signal_id }) => signal_id === id)
}

/** The listing's forecast as the signal `ref` publishes it; undefined when it may not. */
function published(
  { signal_ref, signal_id, coverage_forecast: given }: Estimated['listing'],
  ref: SignalRef,
) {
  const forecast = isRecord(given) ? (without(given) as Record<string, unknown>) : {}
  const own = [...(signal_ref ? [signal_ref] : []), ...(signal_id ? [refFromLegacy(signal_id)] : [])]
  if (!Array.isArray(forecast.points)) return undefined
  let isOther = false
  function renamed(dimension: unknown): unknown {
    if (!isRecord(dimension) || dimension.kind !== 'signal') return dimension
    isOther ||= !isAbout(dimension, own)
    const { kind, signal_ref: _, signal_id: __, ...rest } = dimension
    return { kind, signal_ref: ref, ...rest }
  }
  const points = forecast.points.map((point) =>
    isRecord(point) && Array.isArray(point.dimensions)
      ? { ...point, dimensions: point.dimensions.map(renamed) }
      : point,
  )
  const shown: Record<string, unknown> = {}
  for (const name in forecast) if (FORECAST_MEMBERS.has(name)) shown[name] = forecast[name]
  shown.points = points
  return !isOther && isCoverageForecast(shown) ? shown : undefined
}

/** More buckets win, then a complete partition; the upstream order decides a tie. */
function isMoreSpecific(a: CoverageForecast, b: CoverageForecast): boolean {
  if (a.points.length !== b.points.length) return a.points.length > b.points.length
  return a.bucket_completeness === 'complete' && b.bucket_completeness === 'partial'
}

/** The estimate that a signal publishes. `ref`: the signal's own reference. */
export function mergeCoverage(offers: readonly Estimated[], ref: SignalRef): MergedCoverage {
  let best: CoverageForecast | undefined
  let offer = -1
  offers.forEach(({ listing }, index) => {
    if (listing.coverage_forecast === undefined) return
    const forecast = published(listing, ref)
    if (!forecast || (best && !isMoreSpecific(forecast, best))) return
    best = forecast
    offer = index
  })
  if (best) {
    const percentage = forecastPercentage(best) ?? offers[offer]?.listing.coverage_percentage
    return { offer, forecast: best, percentage }
  }
  offer = offers.findIndex(({ listing }) => listing.coverage_percentage !== undefined)
  const percentage = offers[offer]?.listing.coverage_percentage
  return { offer, forecast: undefined, percentage }
}
