/**
 * What a request may have meant that narrows by providers and platforms that no signal of the feed has, or by codes that no
 * country has: named with what is near to them. Names come from strangers: only plain ones are told.
 */
import { LRUCache } from 'lru-cache'
import { countriesMeant, isCountry } from '../adcp/country.js'
import type { AdcpWarning } from '../adcp/error.js'
import { didYouMean } from '../adcp/issue-words.js'
import { nearest } from '../adcp/nearest.js'
import type { Destination } from '../adcp/signal.js'
import { destinationKey, matchesDestination } from '../merge/deployments.js'
import { digestText } from '../snapshot/digest.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { Filters, Selection } from './query.js'

const NONE: readonly AdcpWarning[] = []
const MOST_ASKED = 3
const MOST_TOLD = 9
const MOST_COMPARED = 1_000 // comparing takes five microseconds a word
/** Upstreams may invent any number of names: whether one is among more than so many is not looked up for a hint. */
const MOST_NAMES = 100_000
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

/** Near names among the first that may be told. */
function nearWords(asked: string, names: Iterable<string>): string[] {
  const plain = new Set<string>()
  let looked = 0
  for (const name of names) {
    looked += 1
    if (plain.size >= MOST_COMPARED || looked > 2 * MOST_COMPARED) break
    if (PLAIN.test(name)) plain.add(name)
  }
  return nearest(asked, plain)
}

function providerMisses({ facts }: Snapshot, asked: readonly unknown[]): AdcpWarning[] {
  const { domains, providers } = facts
  if (domains.length > MOST_NAMES || providers.length > MOST_NAMES) return []
  return asked.slice(0, MOST_ASKED).flatMap((provider, at): AdcpWarning[] => {
    const name = String(provider).trim().toLowerCase()
    if (providers.includes(name) || domains.includes(name)) return []
    const message = 'No signal of the feed has this provider.'
    const otherwise = 'Take data_providers from rows of get_signals or from get_adcp_capabilities.'
    const near = nearWords(name, both(domains, providers))
    return [warning(`filters.data_providers[${at}]`, message, near, otherwise)]
  })
}

function platformMisses({ deployments }: Snapshot, asked: readonly Destination[]): AdcpWarning[] {
  const { destinations } = deployments
  if (destinations.length > MOST_NAMES) return []
  return asked.slice(0, MOST_ASKED).flatMap((destination, at): AdcpWarning[] => {
    if (destination.type !== 'platform') return []
    const { platform } = destination
    const key = destinationKey({ type: 'platform', platform }) as string
    if (destinations.some((deployed) => matchesDestination(deployed, key))) return []
    const message = 'No signal of the feed lists this platform.'
    const otherwise = 'Take platforms from deployments of get_signals.'
    const near = nearWords(platform, platformsOf(destinations))
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
  const found = [
    ...providerMisses(snapshot, providersAsked(filters)),
    ...platformMisses(snapshot, destinations),
  ]
  for (const [at, country] of countries.entries()) {
    if (isCountry(country)) continue
    const message = 'No country has this code.'
    const otherwise = 'Send codes of ISO 3166-1, such as DE.'
    found.push(warning(`countries[${at}]`, message, countriesMeant(country), otherwise))
    if (found.length >= MOST_TOLD) break
  }
  return found
}

/** Requests repeat, and finding what is near takes milliseconds. By digests: a request may be a megabyte. */
const known = new WeakMap<Snapshot, LRUCache<string, readonly AdcpWarning[]>>()

/** For any answer to a selection; nothing is looked up for one that names neither providers, platforms nor countries. */
export function nearMisses(snapshot: Snapshot, selection: Selection): readonly AdcpWarning[] {
  const { filters, destinations, countries } = selection
  if (!filters?.data_providers && !destinations && !countries) return NONE
  const told = known.get(snapshot) ?? new LRUCache<string, readonly AdcpWarning[]>({ max: 1_000 })
  known.set(snapshot, told)
  const looked = [providersAsked(filters).slice(0, MOST_ASKED), destinations?.slice(0, MOST_ASKED), countries]
  const key = digestText(JSON.stringify(looked))
  const before = told.get(key)
  if (before) return before
  const made = missesOf(snapshot, selection)
  told.set(key, made)
  return made
}
