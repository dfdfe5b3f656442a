/** What a coverage forecast says in one number (specification, "CoverageForecast"). */
import type { CoverageForecast } from './signal.js'

/**
 * 100 * (1 - absent coverage_rate.mid), the percentage that is not absent, rounded where binary fractions end;
 * undefined without an absent bucket.
 */
export function forecastPercentage({ points }: CoverageForecast): number | undefined {
  const absent = points.find(({ dimensions }) => dimensions.some(({ presence }) => presence === 'absent'))
  const rate = absent?.metrics.coverage_rate.mid
  return rate === undefined ? undefined : Math.round(1e8 * (1 - rate)) / 1e6
}
