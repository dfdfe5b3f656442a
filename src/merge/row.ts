/**
 * One published row: what a signal is, and what some of its offers let a buyer do with it (docs/decisions.md#merging): one
 * upstream's estimate of how much of the inventory it covers, never a sum (specification, "CoverageForecast"), and every offer's
 * prices side by side, because two upstreams bill one price differently. Options are published as they came, except for their
 * ids. The same function writes the row with all offers and the row with the offers that a reader's countries allow
 * (merge/merged-signal.ts).
 */
import { legacyFromRef, type PricingOption, type SignalRef } from '../adcp/signal.js'
import type { Listing } from '../upstreams/rows/slice.js'
import { mergeCoverage } from './coverage.js'
import type { Conflict } from './definition.js'
import { type MergedDeployment, mergeDeployments } from './deployments.js'
import { optionId } from './identity.js'
import { byText, listsNone, type Offer, type Seller } from './offer.js'

/** Stands for an only offer's handle: no listing holds this character, and JSON escapes it. */
export const HANDLE = '\u0000'
const DEPLOYMENTS = ',"deployments":'
// Before it stands only what every reader gets. Texts there cannot hold it, because their quotes are escaped.
const SIGNAL_TYPE = ',"signal_type":'
/** The currency of CPM prices as a number for a column: none, several, or the three letters of one. */
export const NO_CURRENCY = 0
const SEVERAL_CURRENCIES = 1

type MergedOption = {
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

/** A custom price is for a person to approve, so what it says to that person must be a text that is not empty. */
function isPublishable(option: PricingOption): boolean {
  if (option.model !== 'custom') return true
  const { summary_for_operator: summary } = option.metadata as Record<string, unknown>
  return (
    option.description !== '' && (summary === undefined || (typeof summary === 'string' && summary !== ''))
  )
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

/** The part of the row that does not depend on who sells the signal where. */
type Description = {
  handle: string
  ref: SignalRef
  /** Descriptive members in published order. */
  fields: Readonly<Record<string, unknown>>
  /** Restrictions that the response schema does not know. */
  restrictions: readonly string[]
  conflicts: readonly Conflict[]
}

/** An offer in the row. `countries`: where it may be used; undefined for everywhere. */
export type Standing = { seller: Seller; listing: Listing; countries: readonly string[] | undefined }

/**
 * A row in parts, so that a change of prices leaves the rest alone, and a reader's answer can be hashed before it is
 * written.
 */
export type Row = {
  /** The row's JSON up to its deployments, without the closing brace. */
  readonly opening: string
  /** Where in it the members begin that a reader may not have asked for. */
  readonly fields: number
  /** `,"deployments":[...]` and what follows up to the prices. */
  readonly placed: string
  /** The same without deployments. */
  readonly unplaced: string
  /** `,"pricing_options":[...]`, or empty. */
  readonly tail: string
  /** What the tail says beyond what is before it: of an only offer, the same for all that are sold at its prices. */
  readonly prices: string
  /** What the row says of each deployment: the offers that give it, and its state. */
  readonly states: readonly string[]
  readonly deployments: readonly MergedDeployment[]
  readonly countries: readonly string[] | undefined
  /** Whether offers differ in where they may be used: a reader who names countries may then get fewer of them. */
  readonly mixed: boolean
  /** Whether one of its offers lists no deployment, and so may be asked for any destination. */
  readonly anywhere: boolean
  readonly coverage: number | undefined
  /** NaN when no option has the model. */
  readonly lowestCpm: number
  readonly lowestPercent: number
  /** The currency of the CPM prices (`currencyNumber`). */
  readonly cpmCurrency: number
}

/** Where in the bytes of a row the members begin that a reader may not have asked for, and where the list of deployments. */
export type RowPlaces = { readonly fields: number; readonly deployments: number }

/** `bytes`: of the row's opening. */
export function placesIn({ opening, fields }: Pick<Row, 'opening' | 'fields'>, bytes: number): RowPlaces {
  return {
    fields: bytes === opening.length ? fields : Buffer.byteLength(opening.slice(0, fields)),
    deployments: bytes + DEPLOYMENTS.length,
  }
}

/** What a row says up to its prices, without its deployments. */
export const coreOf = ({ opening, unplaced }: Pick<Row, 'opening' | 'unplaced'>) => opening + unplaced

/** The countries of a signal are the union of its offers' countries. */
function joint(standing: readonly Standing[]): readonly string[] | undefined {
  if (standing.length === 1) return standing[0]?.countries
  const known = standing.flatMap(({ countries }) => (countries ? [countries] : []))
  return known.length < standing.length ? undefined : [...new Set(known.flat())].sort()
}

/** The end of a row: its prices as `,"pricing_options":[...]`, or empty. */
export function tailOf(options: readonly MergedOption[]): string {
  return options.length === 0
    ? ''
    : `,"pricing_options":${JSON.stringify(options.map(({ option }) => option))}`
}

/** The head names an only offer, so its handle in the ids of its options says nothing more. */
function pricesOf(options: readonly MergedOption[], offers: number): string {
  if (offers > 1) return tailOf(options)
  return tailOf(
    options.map((one) => ({
      ...one,
      option: { ...one.option, pricing_option_id: optionId(HANDLE, one.upstreamId) },
    })),
  )
}

/** A Provenance as JSON up to its deployments, without the closing brace. */
function sellerText({ seller, listing, countries }: Standing, mixed: boolean, covers: boolean): string {
  const { coverage_percentage: own } = listing
  const bound = mixed && countries ? `,"countries":${JSON.stringify(countries)}` : ''
  const coverage = covers || own === undefined ? '' : `,"coverage_percentage":${own}`
  return `${JSON.stringify(seller).slice(0, -1)}${bound}${coverage}`
}

/** `ext.tributary`, the end of a head, up to its offers. */
export const BEFORE_OFFERS = ',"ext":{"tributary":{"offers":['

/** Its end: what follows the last offer, from the closing brace of that on. */
export function afterOffers({ restrictions, conflicts }: Pick<Description, 'restrictions' | 'conflicts'>) {
  const notes =
    (restrictions.length > 0 ? `,"restricted_attributes":${JSON.stringify(restrictions)}` : '') +
    (conflicts.length > 0 ? `,"conflicts":${JSON.stringify(conflicts)}` : '')
  return `}]${notes}}}`
}

/** The row of a signal with these offers. They stand in the order of merge/offer.ts, at least one of them. */
export function writeRow(description: Description, standing: readonly Standing[]): Row {
  const { handle, ref, fields } = description
  const { deployments, keysOf } = mergeDeployments(standing)
  const options = mergePricing(
    standing,
    standing.map(({ seller }) => seller.handle),
  )
  const coverage = mergeCoverage(standing, ref)
  const countries = joint(standing)
  const mixed = standing.some((one) => one.countries?.length !== countries?.length)
  const opening = JSON.stringify({
    signal_agent_segment_id: handle,
    signal_ref: ref,
    signal_id: legacyFromRef(ref),
    ...fields,
    coverage_percentage: coverage.percentage,
    coverage_forecast: coverage.forecast,
    countries,
  }).slice(0, -1)
  const sellers = standing.map((one, at) => sellerText(one, mixed, at === coverage.offer))
  const placed = sellers.map((seller, at) => `${seller},"deployments":${JSON.stringify(keysOf[at])}`)
  const targets = deployments.map(({ deployment }) => JSON.stringify(deployment))
  const after = afterOffers(description)
  return {
    opening,
    fields: Math.max(0, opening.indexOf(SIGNAL_TYPE)),
    placed: `${DEPLOYMENTS}[${targets.join()}]${BEFORE_OFFERS}${placed.join('},')}${after}`,
    unplaced: `${BEFORE_OFFERS}${sellers.join('},')}${after}`,
    tail: tailOf(options),
    prices: pricesOf(options, standing.length),
    states: targets.map((target, at) => `${deployments[at]?.offers.join()} ${target}`),
    deployments,
    countries,
    mixed,
    anywhere: standing.some(({ listing }) => listsNone(listing)),
    coverage: coverage.percentage,
    lowestCpm: lowest(options, 'cpm'),
    lowestPercent: lowest(options, 'percent_of_media'),
    cpmCurrency: cpmCurrency(options),
  }
}
