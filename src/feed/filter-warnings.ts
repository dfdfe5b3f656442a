/**
 * The warnings of an answer about what was asked: unknown filters, filters that are not applied, the rates by which prices were
 * compared; and providers or platforms that no signal of the feed has, and country codes that do not exist, each with similar
 * known names. Names come from strangers, so only plain ones are repeated.
 */
import type { AdcpWarning } from '../adcp/answer.js'
import { countriesMeant, didYouMean, isCountry, nearest } from '../adcp/issue-words.js'
import type { Destination } from '../adcp/signal.js'
import { destinationKey, matchesDestination } from '../merge/deployments.js'
import { createRecent, type Recent } from '../process/memory.js'
import { digestText } from '../snapshot/digests.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import {
  type Criteria,
  type Filters,
  priceCurrency,
  type Rates,
  type Reader,
  type Selection,
} from './query.js'

const NONE: readonly AdcpWarning[] = []
const MOST_ASKED = 3
const MOST_COMPARED = 600 // names compared for one request: each comparison takes five microseconds
/** Upstreams may invent any number of names. Beyond this many, a hint is not worth the search. */
const MOST_NAMES = 20_000
const PLATFORM = 'platform:'
const PLAIN = /^[\p{L}\p{N}][\p{L}\p{N} ._&'-]{0,39}$/u

function warning(field: string, message: string, near: readonly string[], otherwise: string): AdcpWarning {
  const suggestion = didYouMean(near) || otherwise
  return { code: 'REFERENCE_NOT_FOUND', severity: 'warning', message, field, suggestion }
}

function* platformsOf(destinations: readonly string[]): Iterable<string> {
  for (const key of destinations) {
    if (key.startsWith(PLATFORM)) yield key.slice(PLATFORM.length).split('#', 1)[0] as string
  }
}

function* both(one: readonly string[], other: readonly string[]): Iterable<string> {
  yield* one
  yield* other
}

/** Similar names among the first ones that may be repeated, for one of so many names in the request. */
function nearWords(asked: string, names: Iterable<string>, ofMany: number): string[] {
  const plain = new Set<string>()
  const most = Math.floor(MOST_COMPARED / ofMany)
  let looked = 0
  for (const name of names) {
    looked += 1
    if (plain.size >= most || looked > 2 * most) break
    if (PLAIN.test(name)) plain.add(name)
  }
  return nearest(asked, plain)
}

function providerMisses({ facts }: Snapshot, asked: readonly unknown[], ofMany: number): AdcpWarning[] {
  const { domains, providers } = facts
  if (domains.length > MOST_NAMES || providers.length > MOST_NAMES) return []
  return asked.flatMap((provider, at): AdcpWarning[] => {
    const name = String(provider).trim().toLowerCase()
    if (providers.includes(name) || domains.includes(name)) return []
    const message = 'No signal of the feed has this provider.'
    const otherwise = 'Take data_providers from rows of get_signals or from get_adcp_capabilities.'
    const near = nearWords(name, both(domains, providers), ofMany)
    return [warning(`filters.data_providers[${at}]`, message, near, otherwise)]
  })
}

function platformMisses(
  { deployments }: Snapshot,
  asked: readonly Destination[],
  ofMany: number,
): AdcpWarning[] {
  const { destinations } = deployments
  if (destinations.length > MOST_NAMES) return []
  return asked.flatMap((destination, at): AdcpWarning[] => {
    if (destination.type !== 'platform') return []
    const { platform } = destination
    const key = destinationKey({ type: 'platform', platform }) as string
    if (destinations.some((deployed) => matchesDestination(deployed, key))) return []
    const message = 'No signal of the feed lists this platform.'
    const otherwise = 'Take platforms from deployments of get_signals.'
    const near = nearWords(platform, platformsOf(destinations), ofMany)
    return [warning(`destinations[${at}].platform`, message, near, otherwise)]
  })
}

function providersAsked({ data_providers: asked }: Filters = {}): readonly unknown[] {
  return Array.isArray(asked) ? asked : []
}

function missesOf(
  snapshot: Snapshot,
  { filters = {}, destinations = [], countries = [] }: Selection,
): AdcpWarning[] {
  const providers = providersAsked(filters).slice(0, MOST_ASKED)
  const places = destinations.slice(0, MOST_ASKED)
  const ofMany = providers.length + places.length
  const found = [...providerMisses(snapshot, providers, ofMany), ...platformMisses(snapshot, places, ofMany)]
  const most = found.length + MOST_ASKED
  for (const [at, country] of countries.entries()) {
    if (isCountry(country)) continue
    const message = 'No country has this code.'
    const otherwise = 'Send codes of ISO 3166-1, such as DE.'
    found.push(warning(`countries[${at}]`, message, countriesMeant(country), otherwise))
    if (found.length >= most) break
  }
  return found
}

const LONGEST_KEY = 512 // a request may have a megabyte: longer keys are digests

/** Requests repeat, and a search for similar names takes milliseconds. */
const known = new WeakMap<Snapshot, Recent<readonly AdcpWarning[]>>()

/** What a selection names and nothing has. Without providers, platforms and countries in it nothing is searched. */
export function nearMisses(snapshot: Snapshot, selection: Selection): readonly AdcpWarning[] {
  const { filters, destinations, countries } = selection
  if (!filters?.data_providers && !destinations && !countries) return NONE
  const told = known.get(snapshot) ?? createRecent<readonly AdcpWarning[]>(1_000)
  known.set(snapshot, told)
  const looked = [providersAsked(filters).slice(0, MOST_ASKED), destinations?.slice(0, MOST_ASKED), countries]
  const text = JSON.stringify(looked)
  const key = text.length > LONGEST_KEY ? digestText(text) : text
  const before = told.get(key)
  if (before) return before
  const made = missesOf(snapshot, selection)
  told.set(key, made)
  return made
}

const PRICE_FILTERS = ['max_cpm', 'max_percent'] as const
const MOST_WARNINGS = 20 // of one kind: a caller's inventions must not make the answer large
const PLAIN_NAME = /^[A-Za-z0-9_]{1,64}$/

const UNKNOWN = 'This agent does not know this filter: the answer is not restricted by it.'
const VENDORS = 'This agent applies no vendor filters: the answer is not restricted by them.'

/** `ext` is a field of the request's schema, but its content is a vendor's: it is not applied here either. */
function unknownFilterWarnings({ unknown }: Criteria): AdcpWarning[] {
  return unknown.slice(0, MOST_WARNINGS).map((name) => ({
    code: 'UNKNOWN_FILTER',
    severity: 'warning',
    message: name === 'ext' ? VENDORS : UNKNOWN,
    field: PLAIN_NAME.test(name) ? `filters.${name}` : 'filters', // never repeat an arbitrary text
  }))
}

/** A price filter of a reader who may not see prices would reveal them: it is reported and not applied. */
function priceFilterWarnings({ filters = {} }: Selection, reader: Reader): AdcpWarning[] {
  if (reader.visibility === 'full') return []
  return PRICE_FILTERS.filter((name) => filters[name] !== undefined).map((name) => ({
    code: 'PRICING_UNAVAILABLE',
    severity: 'warning',
    message: 'Prices are shown to authenticated callers only: the answer is not restricted by this filter.',
    field: `filters.${name}`,
  }))
}

/** Names the rates by which prices in other currencies were compared with the filter. */
function conversionWarnings(
  { filters = {} }: Selection,
  { maxCpm = [] }: Criteria,
  reader: Reader,
  rates: Rates | undefined,
): AdcpWarning[] {
  if (!rates || maxCpm.length < 2 || reader.visibility !== 'full') return []
  return [
    {
      code: 'PRICES_CONVERTED',
      severity: 'warning',
      message: `Prices in other currencies were compared by rates of ${rates.asOf}; what is shown is not converted.`,
      field: 'filters.max_cpm',
      details: { currency: priceCurrency(filters), as_of: rates.asOf },
    },
  ]
}

/** All of them, for any answer to this query; empty when every filter was applied as it was asked. */
export function filterWarnings(
  query: Selection,
  criteria: Criteria,
  reader: Reader,
  rates: Rates | undefined,
): AdcpWarning[] {
  return [
    ...unknownFilterWarnings(criteria),
    ...priceFilterWarnings(query, reader),
    ...conversionWarnings(query, criteria, reader, rates),
  ]
}
