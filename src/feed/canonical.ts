/**
 * One spelling for equivalent requests, so that they get one version (specification, Wholesale conditional-fetch rules
 * 2 and 5): keys sorted, omitted and default values alike, lists as sets. Fields that the protocol may yet grow are
 * sets too, and take part although nothing filters by them.
 */

import { isRecord } from '../adcp/json.js'
import { SIGNAL_TYPES } from '../adcp/signal.js'
import { destinationKey } from '../merge/deployments.js'
import { digestText } from '../snapshot/keys.js'
import type { Filters, Selection } from './query.js'
import { amountsIn, type Rates } from './rates.js'

/** What of a selection chooses rows. Absent: does not restrict. */
export type Criteria = {
  readonly types?: readonly string[]
  /** Lower case: names as in `data_provider`, or domains. */
  readonly providers?: readonly string[]
  /** What a CPM may be at most: by currency (its number), each amount worth the same. */
  readonly maxCpm?: readonly (readonly [currency: number, amount: number])[]
  readonly maxPercent?: number
  readonly minCoverage?: number
  readonly destinations?: readonly string[]
  readonly countries?: readonly string[]
  /** Filters that this version does not apply, by name: unknown ones, and vendors' under `ext`. */
  readonly unknown: readonly string[]
  /** The tuple's canonical spelling: what versions, caches and cursors are bound to. */
  readonly tuple: string
}

const KNOWN: ReadonlySet<string> = new Set([
  'catalog_types',
  'data_providers',
  'max_cpm',
  'max_percent',
  'min_coverage_percentage',
])

/** What `max_cpm` is in when the request does not say. */
const DEFAULT_CURRENCY = 'USD'
const CURRENCY = /^[A-Z]{3}$/
const LONGEST_TUPLE = 512 // a cache keeps tuples as keys: what a caller can send must not decide their size

type Words = readonly string[] | undefined

function set(values: unknown, spell: (value: string) => string = (value) => value): Words {
  if (!Array.isArray(values)) return undefined
  const spelled = new Set(values.filter((value) => typeof value === 'string' && value !== '').map(spell))
  return spelled.size > 0 ? [...spelled].sort() : undefined
}

function number(value: unknown, isDefault: (value: number) => boolean): number | undefined {
  return typeof value === 'number' && !isDefault(value) ? value : undefined
}

/** Canonical JSON of a value nobody here understands; undefined when it says nothing. */
function spelled(value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined
  if (Array.isArray(value)) {
    const members = new Set(value.map(spelled).filter((member) => member !== undefined))
    return members.size > 0 ? `[${[...members].sort().join()}]` : undefined
  }
  if (typeof value !== 'object') return JSON.stringify(value)
  const members = Object.keys(value)
    .sort()
    .map((name) => [name, spelled((value as Record<string, unknown>)[name])] as const)
    .filter(([, member]) => member !== undefined)
  return members.length > 0
    ? `{${members.map(([name, member]) => `${JSON.stringify(name)}:${member}`).join()}}`
    : undefined
}

function everyType(types: Words): Words {
  return types && SIGNAL_TYPES.every((type) => types.includes(type)) ? undefined : types
}

/** `max_cpm` names no currency in the protocol; `ext.tributary.currency` does. */
function currencyOf({ ext }: Filters): string | undefined {
  const named = isRecord(ext) && isRecord(ext.tributary) ? ext.tributary.currency : undefined
  return typeof named === 'string' && CURRENCY.test(named) ? named : undefined
}

/** The currency of `max_cpm`, stated or not. */
export function priceCurrency(filters: Filters): string {
  return currencyOf(filters) ?? DEFAULT_CURRENCY
}

function maxCpmOf(filters: Filters, rates: Rates | undefined): Criteria['maxCpm'] {
  const amount = number(filters.max_cpm, () => false)
  return amount === undefined ? undefined : amountsIn(amount, priceCurrency(filters), rates)
}

/** Whether `ext` says nothing but the currency of `max_cpm`. */
function isCurrencyOnly(filters: Filters): boolean {
  const { max_cpm, ext } = filters
  if (max_cpm === undefined || currencyOf(filters) === undefined) return false
  return spelled(ext) === spelled({ tributary: { currency: currencyOf(filters) } })
}

function unknownFilters(filters: Filters): string[] {
  return Object.keys(filters)
    .filter(
      (name) =>
        !KNOWN.has(name) &&
        !(name === 'ext' && isCurrencyOnly(filters)) &&
        spelled(filters[name]) !== undefined,
    )
    .sort()
}

function spell({ filters = {}, destinations, countries }: Selection, rates?: Rates): Criteria {
  const unknown = unknownFilters(filters)
  const criteria = {
    types: everyType(set(filters.catalog_types)),
    providers: set(filters.data_providers, (name) => name.trim().toLowerCase()),
    maxCpm: maxCpmOf(filters, rates),
    maxPercent: number(filters.max_percent, (value) => value >= 100), // no option asks for more
    minCoverage: number(filters.min_coverage_percentage, (value) => value <= 0),
    // A malformed agent url is no destination of anyone: it stays in the tuple and matches nothing.
    destinations: set(
      destinations?.map((asked) => destinationKey(asked) ?? `malformed:${JSON.stringify(asked)}`),
    ),
    countries: set(countries),
    unknown,
  }
  const grown = unknown.map((name) => `${JSON.stringify(name)}:${spelled(filters[name])}`).join()
  const tuple = `${JSON.stringify(criteria)}{${grown}}`
  return { ...criteria, tuple: tuple.length > LONGEST_TUPLE ? digestText(tuple) : tuple }
}

const WHOLE_FEED = spell({})

/** The selection in its canonical spelling. `rates`: by which prices in other currencies are compared, if they are. */
export function criteriaOf(selection: Selection, rates?: Rates): Criteria {
  const { filters, destinations, countries } = selection
  return filters || destinations || countries ? spell(selection, rates) : WHOLE_FEED
}
