/**
 * What a caller may ask of the feed and what comes back: the contract between `feed` and `server`. Equivalent questions
 * have one spelling, so that they get one version (specification, Wholesale conditional-fetch rules 2 and 5): keys are
 * sorted, omitted and default values are alike, lists are sets. Fields that the protocol may still add are treated as
 * sets, too: they are part of the spelling although nothing filters by them. Rates from the configuration are the only
 * way in which prices in different currencies are compared; no price is ever shown converted. A version covers exactly what
 * the reader of a question sees.
 */
import type { AdcpWarning, Refused } from '../adcp/answer.js'
import { isRecord } from '../adcp/json.js'
import { type Destination, SIGNAL_TYPES, type SignalRef } from '../adcp/signal.js'
import { FILTER_NAMES } from '../adcp/signal-requests.js'
import type { Undecided } from '../authz/rules/verdict.js'
import { destinationKey } from '../merge/deployments.js'
import { currencyNumber } from '../merge/row.js'
import { createRecent } from '../process/memory.js'
import { digestText } from '../snapshot/digests.js'
import type { Part } from '../upstreams/rows/slice.js'

export type CacheScope = 'public' | 'account'

/** Who reads the feed, and what of it that reader may see (docs/decisions.md#callers). */
export type Reader = {
  /** Binds cursors; never published. */
  caller: string
  /** `metadata`: no prices, no keys (anonymous callers). */
  visibility: 'full' | 'metadata'
  /** Destinations whose activation keys the reader may see. */
  grants: readonly Destination[]
  /** The account whose layer is asked for, once it is known to be the reader's. */
  account?: string
  /** In 3.0 every signal has a price, coverage and a provider's name: others are hidden from a reader of that release. */
  wholeOnly?: boolean
}

/**
 * The layer of the feed that an account of a caller is read from. Account ids are the caller's own words: two
 * callers may use one word for different accounts, so the layer's name holds both.
 */
export function overlayName(callerId: string, accountId: string): string {
  return JSON.stringify([callerId, accountId])
}

/** The caller with the account of that name, and the caller's own id for it. */
export function accountNamed(name: string): [caller: string, account: string] {
  return JSON.parse(name) as [string, string]
}

export type Filters = Readonly<Record<string, unknown>>

/** What shapes an answer, whether rows are listed or looked up. The values conform to the request schema. */
export type Selection = {
  filters?: Filters
  destinations?: readonly Destination[]
  countries?: readonly string[]
  fields?: readonly string[]
}

export type WholesaleQuery = Selection & {
  /** 1 to 100. */
  maxResults: number
  cursor?: string
  ifFeedVersion?: string
  ifPricingVersion?: string
}

export type LookupQuery = Selection & { refs: readonly SignalRef[] }

export type Versions = { feedVersion: string; pricingVersion?: string; cacheScope: CacheScope }

export type Page = Versions & {
  kind: 'page'
  /** The rows as JSON, without the array's brackets: ready to be written between them. */
  rows: readonly Uint8Array[]
  count: number
  total: number
  cursor?: string
  /** What the snapshot behind the answer lacks. */
  gaps: readonly Gap[]
  warnings: readonly AdcpWarning[]
}

export type WholesaleAnswer = ({ kind: 'unchanged'; gaps: readonly Gap[] } & Versions) | Page | Refused

/**
 * What a generation of the feed lacks for another reason than a decision, as it was known when the generation was
 * built. Each answer reports the gaps of its own snapshot (specification, "IncompleteEntry"). Upstreams are named by
 * canonical url, because their id may change before the answer is given.
 */
export type Gap =
  /** The snapshot holds rows of these upstreams only, whatever other upstreams have come since. */
  | { kind: 'others'; carried: ReadonlySet<string> }
  /** Rows of this upstream are withheld without a decision: these providers' files could not be read. */
  | { kind: 'provider'; agentUrl: string; upstream: string; reason: Undecided; domains: readonly string[] }
  /** This upstream could not give this part. `stands`: rows have it as it was last given, which is not too long ago. */
  | { kind: 'part'; agentUrl: string; part: Part; stands?: boolean }
  /** What this upstream offers to the reader's account has not been read: its public offers are shown instead. */
  | { kind: 'account'; agentUrl: string }
  /** The snapshot was made for another account than the one that the reader's name now stands for. */
  | { kind: 'other_account' }

/**
 * Whether an upstream of the account has not been read yet: the answers must then not be presented as the rate card.
 */
export function isUnconfirmed(gaps: readonly Gap[]): boolean {
  return gaps.some(({ kind }) => kind === 'account')
}

export type Rates = {
  /** The date of the table. */
  asOf: string
  /** The value of one unit of each currency, in a common measure. */
  worth: ReadonlyMap<string, number>
}

/** An amount in another currency; undefined when the table lacks one of the two. */
export function converted(
  amount: number,
  from: string,
  to: string,
  rates: Rates | undefined,
): number | undefined {
  if (from === to) return amount
  const [own, other] = [rates?.worth.get(from), rates?.worth.get(to)]
  return own === undefined || other === undefined ? undefined : (amount * own) / other
}

/** An amount in its own currency and in each that it can be converted to, by currency number. */
function amountsIn(amount: number, currency: string, rates: Rates | undefined): [number, number][] {
  const others = rates?.worth.has(currency) ? rates.worth.keys() : [currency]
  return [...new Set([currency, ...others])]
    .map((one): [number, number] => [currencyNumber(one), converted(amount, currency, one, rates) as number])
    .sort(([a], [b]) => a - b)
}

/** The part of a selection that chooses rows. An absent member does not restrict. */
export type Criteria = {
  readonly types?: readonly string[]
  /** Lower case: names as in `data_provider`, or domains. */
  readonly providers?: readonly string[]
  /** The highest CPM allowed, by currency number; the amounts are all worth the same. */
  readonly maxCpm?: readonly (readonly [currency: number, amount: number])[]
  readonly maxPercent?: number
  readonly minCoverage?: number
  readonly destinations?: readonly string[]
  readonly countries?: readonly string[]
  /** Filters that this version does not apply, by name: unknown ones, and vendor filters under `ext`. */
  readonly unknown: readonly string[]
  /** The canonical spelling of the tuple: versions and caches are bound to it. */
  readonly tuple: string
  /** The same without rates, which are no part of what was asked: cursors are bound to it. */
  readonly asked: string
}

const KNOWN: ReadonlySet<string> = new Set(FILTER_NAMES)

/** The currency of `max_cpm` when the request does not state one. */
const DEFAULT_CURRENCY = 'USD'
const CURRENCY = /^[A-Z]{3}$/
const LONGEST_TUPLE = 512 // caches use tuples as keys, so a caller must not decide their size

type Words = readonly string[] | undefined

function set(values: unknown, spell: (value: string) => string = (value) => value): Words {
  if (!Array.isArray(values)) return undefined
  const spelled = new Set(values.filter((value) => typeof value === 'string' && value !== '').map(spell))
  return spelled.size > 0 ? [...spelled].sort() : undefined
}

function number(value: unknown, isDefault: (value: number) => boolean): number | undefined {
  return typeof value === 'number' && !isDefault(value) ? value : undefined
}

/** Canonical JSON of a value that we do not interpret; undefined when it is empty. */
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

/** The protocol has no currency for `max_cpm`; `ext.tributary.currency` states it. */
function currencyOf({ ext }: Filters): string | undefined {
  const named = isRecord(ext) && isRecord(ext.tributary) ? ext.tributary.currency : undefined
  return typeof named === 'string' && CURRENCY.test(named) ? named : undefined
}

/** The currency of `max_cpm`, stated or default. */
export function priceCurrency(filters: Filters): string {
  return currencyOf(filters) ?? DEFAULT_CURRENCY
}

function maxCpmOf(filters: Filters, rates: Rates | undefined): Criteria['maxCpm'] {
  const amount = number(filters.max_cpm, () => false)
  return amount === undefined ? undefined : amountsIn(amount, priceCurrency(filters), rates)
}

/** Whether `ext` holds only the currency of `max_cpm`. */
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
  const maxCpm = maxCpmOf(filters, rates)
  const criteria = {
    types: everyType(set(filters.catalog_types)),
    providers: set(filters.data_providers, (name) => name.trim().toLowerCase()),
    maxCpm,
    maxPercent: number(filters.max_percent, (value) => value >= 100), // no option charges more than 100 percent
    minCoverage: number(filters.min_coverage_percentage, (value) => value <= 0),
    // A malformed agent url is nobody's destination: it stays in the tuple and matches nothing.
    destinations: set(
      destinations?.map((asked) => destinationKey(asked) ?? `malformed:${JSON.stringify(asked)}`),
    ),
    countries: set(countries),
    unknown,
  }
  const grown = unknown.map((name) => `${JSON.stringify(name)}:${spelled(filters[name])}`).join()
  const textOf = (spelling: typeof criteria) => {
    const text = `${JSON.stringify(spelling)}{${grown}}`
    return text.length > LONGEST_TUPLE ? digestText(text) : text
  }
  const tuple = textOf(criteria)
  const isConverted = maxCpm !== undefined && maxCpm.length > 1
  const asked = isConverted ? textOf({ ...criteria, maxCpm: maxCpmOf(filters, undefined) }) : tuple
  return { ...criteria, tuple, asked }
}

const WHOLE_FEED = spell({})
const MOST_KNOWN = 1_000
const known = createRecent<{ criteria: Criteria; rates: Rates | undefined }>(MOST_KNOWN)

/**
 * The canonical spelling of a selection. `rates`: how prices in other currencies are compared, if at all. A selection that
 * comes again, as with each page of a walk, gets the same object, so that what is derived from it may be cached by it.
 */
export function criteriaOf(selection: Selection, rates?: Rates): Criteria {
  const { filters, destinations, countries } = selection
  if (!filters && !destinations && !countries) return WHOLE_FEED
  const text = JSON.stringify([filters, destinations, countries])
  const found = known.get(text)
  if (found && found.rates === rates) return found.criteria
  const criteria = spell(selection, rates)
  if (text.length <= LONGEST_TUPLE) known.set(text, { criteria, rates })
  return criteria
}

/** Activation keys, and what is merged again for countries, come from the listings behind the rows. */
export const needsListings = ({ countries, destinations }: Criteria, { grants }: Reader): boolean =>
  countries !== undefined || destinations !== undefined || grants.length > 0

/** What is digested of what a reader sees: its view, and the keys; empty for none. */
type Content = { view: { readonly structure: string; readonly pricing: string }; secret: string }

/** A view belongs to one tuple and visibility; the key holds everything else that a version depends on. */
const madeVersions = new WeakMap<Content['view'], Map<string, Versions>>()

/** Versions over exactly what a caller of this tuple sees, bound to the scope of the answer. */
export function versions(
  mode: string,
  { shown, scope }: { shown: Content; scope: CacheScope },
  criteria: Criteria,
  reader: Reader,
): Versions {
  const { view, secret } = shown
  const account = scope === 'account' ? reader.account : ''
  const made = madeVersions.get(view) ?? new Map<string, Versions>()
  madeVersions.set(view, made)
  const key = `${mode} ${scope} ${account} ${secret}`
  const known = made.get(key)
  if (known) return known
  const token = (...content: string[]) =>
    digestText(JSON.stringify([mode, scope, account, reader.visibility, criteria.tuple, ...content]))
  const feedVersion = token('feed', view.structure, secret)
  // A reader who sees no prices gets no version of them: it would reveal that they changed.
  const fresh: Versions =
    reader.visibility === 'full'
      ? { feedVersion, pricingVersion: token('pricing', view.pricing), cacheScope: scope }
      : { feedVersion, cacheScope: scope }
  made.set(key, fresh)
  return fresh
}

/**
 * Feed first, prices second: every version that the request sends must match (specification, Wholesale
 * conditional-fetch rules 1).
 */
export function isUnchanged({ ifFeedVersion, ifPricingVersion }: WholesaleQuery, current: Versions): boolean {
  if (ifFeedVersion !== current.feedVersion) return false
  return ifPricingVersion === undefined || ifPricingVersion === current.pricingVersion
}
