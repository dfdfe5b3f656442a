/**
 * Every offer's prices side by side (docs/decisions.md#merging). The same price from two upstreams stays two options,
 * because they bill differently. Options are published as they came, except for their ids.
 */
import type { PricingOption } from '../adcp/signal.js'
import { optionId } from './identity.js'
import { byText, type Offer } from './offer.js'

export type MergedOption = {
  readonly option: PricingOption
  /** The upstream's own id, which activation and billing need. */
  readonly upstreamId: string
  readonly offer: number
}

/** The amount that the option's model charges; custom models have none. */
function price(option: PricingOption): number {
  if (option.model === 'cpm') return option.cpm
  if (option.model === 'percent_of_media') return option.percent
  if (option.model === 'flat_fee') return option.amount
  return option.model === 'per_unit' ? option.unit_price : 0
}

function order({ option: a }: MergedOption, { option: b }: MergedOption): number {
  return (
    byText(a.model, b.model) ||
    byText(a.currency ?? '', b.currency ?? '') ||
    price(a) - price(b) ||
    byText(a.pricing_option_id, b.pricing_option_id)
  )
}

function isPublishable(option: PricingOption): boolean {
  return option.model !== 'custom' || option.description !== ''
}

/**
 * Sorted by model, currency, price, id. `handles[i]` is offer `i`'s handle. When an upstream gives one id to two
 * options of a signal, only the first is kept, because billing could not tell them apart.
 */
export function mergePricing(
  offers: readonly Pick<Offer, 'listing'>[],
  handles: readonly string[],
): MergedOption[] {
  const options: MergedOption[] = []
  offers.forEach((offer, index) => {
    for (const option of offer.listing.pricing_options ?? []) {
      if (!isPublishable(option)) continue
      const upstreamId = option.pricing_option_id
      const pricing_option_id = optionId(handles[index] as string, upstreamId)
      options.push({ option: { ...option, pricing_option_id }, upstreamId, offer: index })
    }
  })
  if (options.length < 2) return options
  const seen = new Set<string>()
  return options.sort(order).filter(({ option: { pricing_option_id: id } }) => !seen.has(id) && seen.add(id))
}

/** The lowest number among the options of one model; NaN when there is none. */
export function lowest(options: readonly MergedOption[], model: 'cpm' | 'percent_of_media'): number {
  let found = Number.NaN
  for (const { option } of options) {
    if (option.model === model && !(price(option) >= found)) found = price(option)
  }
  return found
}

/** The currency of CPM prices as a number for a column: none, several, or the three letters of one. */
export const NO_CURRENCY = 0
const SEVERAL_CURRENCIES = 1

/** ISO 4217. */
export function currencyNumber(code: string): number {
  return [...code].reduce((sum, letter) => sum * 256 + letter.charCodeAt(0), 0)
}

/** The code of such a number; undefined for none and for several. */
export function currencyCode(number: number): string | undefined {
  if (number === NO_CURRENCY || number === SEVERAL_CURRENCIES) return undefined
  return String.fromCharCode((number >>> 16) & 255, (number >>> 8) & 255, number & 255)
}

/** The currency of the CPM prices among the options. */
export function cpmCurrency(options: readonly MergedOption[]): number {
  const found = new Set(options.flatMap(({ option }) => (option.model === 'cpm' ? [option.currency] : [])))
  const [only] = found
  if (only === undefined) return NO_CURRENCY
  return found.size > 1 ? SEVERAL_CURRENCIES : currencyNumber(only)
}
