/**
 * What a request that found nothing may have meant: providers and platforms that no signal of the feed has, with those
 * that are near to them. Names come from strangers: only plain ones are told.
 */
import type { AdcpWarning } from '../adcp/error.js'
import { nearest } from '../adcp/nearest.js'
import { matchesDestination } from '../merge/deployments.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { Selection } from './query.js'

const MOST_ASKED = 3
const MOST_COMPARED = 3_000 // a comparison takes microseconds, and a feed may hold a hundred thousand domains
const PLAIN = /^[\p{L}\p{N}][\p{L}\p{N} ._&'-]{0,39}$/u

function warning(field: string, what: string, asked: string, words: readonly string[]): AdcpWarning {
  const near = nearest(asked, words.filter((word) => PLAIN.test(word)).slice(0, MOST_COMPARED))
  const meant = near.map((word) => JSON.stringify(word)).join(' or ')
  return {
    code: 'REFERENCE_NOT_FOUND',
    severity: 'warning',
    message: `No signal of the feed has this ${what}.`,
    field,
    ...(meant !== '' && { suggestion: `Did you mean ${meant}?` }),
  }
}

/** For an answer without a signal. */
export function nearMisses(
  snapshot: Snapshot,
  { filters = {}, destinations = [] }: Selection,
): AdcpWarning[] {
  const { facts, deployments } = snapshot
  const found: AdcpWarning[] = []
  const asked = Array.isArray(filters.data_providers) ? filters.data_providers.slice(0, MOST_ASKED) : []
  for (const [at, provider] of asked.entries()) {
    const name = String(provider).trim().toLowerCase()
    if (facts.providers.includes(name) || facts.domains.includes(name)) continue
    found.push(
      warning(`filters.data_providers[${at}]`, 'provider', name, [...facts.domains, ...facts.providers]),
    )
  }
  const platforms = deployments.destinations.flatMap((key) =>
    key.startsWith('platform:') ? [key.slice('platform:'.length).split('#', 1)[0] as string] : [],
  )
  for (const [at, destination] of destinations.slice(0, MOST_ASKED).entries()) {
    if (destination.type !== 'platform') continue
    const { platform } = destination
    if (deployments.destinations.some((key) => matchesDestination(key, `platform:${platform}`))) continue
    found.push(warning(`destinations[${at}].platform`, 'platform', platform, [...new Set(platforms)]))
  }
  return found
}
