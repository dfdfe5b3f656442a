/**
 * What a question that names signals wants to be different about them (specification, "Refinement: start from the referenced signals
 * and adjust per the spec"); the rest of the text, and the words of the named signals, say what to search for.
 */
import { type CoverageForecast, forecastPercentage } from '../adcp/coverage-forecast.js'
import type { PricingOption, SignalRef } from '../adcp/signal.js'
import { fold } from './words.js'

type Wish = 'cheaper' | 'broader' | 'narrower' | 'other_providers' | 'live'

/** The fields of a row that wishes are compared with. */
export type RefinableRow = {
  name: string
  signal_ref?: SignalRef
  data_provider?: string
  coverage_percentage?: number
  coverage_forecast?: CoverageForecast
  pricing_options?: readonly PricingOption[]
  deployments: readonly { is_live: boolean }[]
}

type Refinement = {
  wishes: readonly Wish[]
  /** The text without the words that were read as wishes. */
  rest: string
}

const WISH_WORDS: Readonly<Record<Wish, RegExp>> = {
  cheaper:
    /\b(?:cheap(?:er|est)?|less expensive|more affordable|lower (?:price|cost|cpm)s?|lowest cpm|better price|for less)\b/g,
  broader:
    /\b(?:broad(?:er|en)?|wider|larger|bigger|more (?:reach|coverage|scale|people)|higher (?:reach|coverage)|expand(?: reach)?|scale up)\b/g,
  narrower:
    /\b(?:narrow(?:er)?|smaller|tighter|more (?:precise|specific|targeted|niche)|lower coverage|less reach)\b/g,
  other_providers:
    /\b(?:(?:from )?(?:an)?other (?:data )?(?:provider|source|vendor)s?|different (?:data )?(?:provider|source|vendor)s?|alternatives?)\b/g,
  live: /\b(?:(?:already |currently )?live|ready to use|already (?:active|activated)|no activation)\b/g,
}
/** Words around a wish that are not searched for. */
const AROUND =
  /\b(?:similar|like (?:this|these|that|those)|same (?:but|as)|but|keep|instead|something|than|ones?|options?)\b/g

/** Finds the wishes in the text of a refinement. */
export function readWishes(spec: string): Refinement {
  let rest = fold(spec)
  const wishes: Wish[] = []
  for (const [wish, words] of Object.entries(WISH_WORDS) as [Wish, RegExp][]) {
    const without = rest.replace(words, ' ')
    if (without !== rest) wishes.push(wish)
    rest = without
  }
  return { wishes, rest: rest.replace(AROUND, ' ').replace(/\s+/g, ' ').trim() }
}

/** Amounts that can be compared: of one model, in one currency, in one unit. */
function comparablePrices({ pricing_options: options = [] }: RefinableRow): Map<string, number> {
  const lowest = new Map<string, number>()
  const offer = (kind: string, amount: number) =>
    lowest.set(kind, Math.min(amount, lowest.get(kind) ?? Number.POSITIVE_INFINITY))
  for (const option of options) {
    if (option.model === 'cpm') offer(`cpm ${option.currency}`, option.cpm)
    if (option.model === 'percent_of_media') offer('percent', option.percent)
    if (option.model === 'flat_fee') offer(`flat ${option.period} ${option.currency}`, option.amount)
    if (option.model === 'per_unit') offer(`unit ${option.unit} ${option.currency}`, option.unit_price)
  }
  return lowest
}

/** Whether it costs less in every way in which both are priced; there must be at least one such way. */
function isCheaper(row: RefinableRow, anchor: RefinableRow): boolean {
  const asked = comparablePrices(anchor)
  const alike = [...comparablePrices(row)].filter(([kind]) => asked.has(kind))
  return alike.length > 0 && alike.every(([kind, amount]) => amount < (asked.get(kind) ?? 0))
}

/** Percent of the denominator: the scalar, or what the forecast says. */
function coverageOf({ coverage_percentage: scalar, coverage_forecast: forecast }: RefinableRow) {
  return scalar ?? (forecast && forecastPercentage(forecast))
}

function providerOf({ signal_ref: ref, data_provider: name }: RefinableRow): string {
  if (ref?.scope === 'data_provider') return ref.data_provider_domain
  return ref?.scope === 'signal_source' ? ref.signal_source_url : (name ?? '')
}

const FULFILS: Readonly<Record<Wish, (row: RefinableRow, anchors: readonly RefinableRow[]) => boolean>> = {
  cheaper: (row, anchors) => anchors.every((anchor) => isCheaper(row, anchor)),
  broader: (row, anchors) => anchors.every((anchor) => (coverageOf(row) ?? 0) > (coverageOf(anchor) ?? 0)),
  narrower: (row, anchors) =>
    anchors.every((anchor) => (coverageOf(row) ?? Number.POSITIVE_INFINITY) < (coverageOf(anchor) ?? 0)),
  other_providers: (row, anchors) => anchors.every((anchor) => providerOf(row) !== providerOf(anchor)),
  live: (row) => row.deployments.some((deployment) => deployment.is_live),
}

/** Whether a row fulfils the wishes compared with the named signals. Unknown prices and coverages fulfil nothing. */
export function fulfils(
  wishes: readonly Wish[],
  row: RefinableRow,
  anchors: readonly RefinableRow[],
): boolean {
  return wishes.every((wish) => FULFILS[wish](row, anchors))
}

/** What to search for: the rest of the text, and the names of the named signals. */
export function refinedQuestion({ rest }: Refinement, anchors: readonly RefinableRow[]): string {
  return [rest, ...anchors.map(({ name }) => name)].join(' . ')
}
