/**
 * What a request may have meant that narrows by providers and platforms that no signal of the feed has, or by codes that no
 * country has: named with what is near to them. Names come from strangers: only plain ones are told.
 */
import { LRUCache } from 'lru-cache'
import { countriesMeant, isCountry } from '../adcp/country.js'
import type { AdcpWarning } from '../adcp/error.js'
import { didYouMean } from '../adcp/issue-words.js'
import { nearest } from '../adcp/nearest.js'
import { matchesDestination } from '../merge/deployments.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { Selection } from './query.js'

const NONE: readonly AdcpWarning[] = []
const MOST_ASKED = 3
const MOST_TOLD = 9
const MOST_COMPARED = 3_000 // a comparison takes microseconds, and a feed may hold a hundred thousand domains
const PLAIN = /^[\p{L}\p{N}][\p{L}\p{N} ._&'-]{0,39}$/u

function warning(field: string, message: string, near: readonly string[], otherwise: string): AdcpWarning {
  const suggestion = didYouMean(near) || otherwise
  return { code: 'REFERENCE_NOT_FOUND', severity: 'warning', message, field, suggestion }
}

function nearWords(asked: string, words: readonly string[]): string[] {
  return nearest(asked, words.filter((word) => PLAIN.test(word)).slice(0, MOST_COMPARED))
}

function missesOf(
  snapshot: Snapshot,
  { filters = {}, destinations = [], countries = [] }: Selection,
): AdcpWarning[] {
  const { facts, deployments } = snapshot
  const found: AdcpWarning[] = []
  const asked = Array.isArray(filters.data_providers) ? filters.data_providers.slice(0, MOST_ASKED) : []
  for (const [at, provider] of asked.entries()) {
    const name = String(provider).trim().toLowerCase()
    if (facts.providers.includes(name) || facts.domains.includes(name)) continue
    const near = nearWords(name, [...facts.domains, ...facts.providers])
    const message = 'No signal of the feed has this provider.'
    const otherwise = 'Take data_providers from rows of get_signals or from get_adcp_capabilities.'
    found.push(warning(`filters.data_providers[${at}]`, message, near, otherwise))
  }
  const platforms = deployments.destinations.flatMap((key) =>
    key.startsWith('platform:') ? [key.slice('platform:'.length).split('#', 1)[0] as string] : [],
  )
  for (const [at, destination] of destinations.slice(0, MOST_ASKED).entries()) {
    if (destination.type !== 'platform') continue
    const { platform } = destination
    if (deployments.destinations.some((key) => matchesDestination(key, `platform:${platform}`))) continue
    const near = nearWords(platform, [...new Set(platforms)])
    const message = 'No signal of the feed has this platform.'
    const otherwise = 'Take platforms from deployments of get_signals.'
    found.push(warning(`destinations[${at}].platform`, message, near, otherwise))
  }
  for (const [at, country] of countries.entries()) {
    if (isCountry(country)) continue
    const message = 'No country has this code.'
    const otherwise = 'Send codes of ISO 3166-1, such as DE.'
    found.push(warning(`countries[${at}]`, message, countriesMeant(country), otherwise))
    if (found.length >= MOST_TOLD) break
  }
  return found
}

/** Requests repeat, and finding what is near takes milliseconds. */
const known = new WeakMap<Snapshot, LRUCache<string, readonly AdcpWarning[]>>()

/** For any answer to a selection; nothing is looked up for one that names neither providers, platforms nor countries. */
export function nearMisses(snapshot: Snapshot, selection: Selection): readonly AdcpWarning[] {
  const { filters, destinations, countries } = selection
  if (!filters?.data_providers && !destinations && !countries) return NONE
  const told = known.get(snapshot) ?? new LRUCache<string, readonly AdcpWarning[]>({ max: 1_000 })
  known.set(snapshot, told)
  const key = JSON.stringify([filters?.data_providers, destinations, countries])
  const before = told.get(key)
  if (before) return before
  const made = missesOf(snapshot, selection)
  told.set(key, made)
  return made
}
