/**
 * `offers -> signal`: one published row out of all the ways to buy one identity (DESIGN 5.3, 5.4).
 * Pure, and the same bytes for the same set of offers in any order of arrival. A row is a head and a tail: the tail is
 * its prices, so that structure and prices move apart and a reader without prices gets the head alone.
 */

import { legacyFromRef, type SignalRef } from '../adcp/reference.js'
import type { SignalType } from '../adcp/signal.js'
import { canonicalUrl } from '../adcp/url.js'
import { publishable } from '../authz/policy.js'
import type { Policy, Verdict } from '../authz/verdict.js'
import { mergeCoverage } from './coverage.js'
import { countriesOf, type Definition, mergeDefinition } from './definition.js'
import { type MergedDeployment, mergeDeployments } from './deployments.js'
import { type Identity, identityKey, listingRef, offerHandle, signalHandle } from './identity.js'
import type { Offer } from './offer.js'
import { lowest, type MergedOption, mergePricing } from './pricing.js'

/** One way to buy, members that are undefined left out, as readers see it under `ext.tributary.offers`. Its options are those whose id its handle begins. */
export type Provenance = {
  upstream: string
  agent_url: string
  handle: string
  verdict: Verdict['outcome']
  reason: string | undefined
  mode: 'enumerated' | undefined
  claimed_source: string | undefined
  /** Where this offer alone is narrower than the signal. */
  countries: readonly string[] | undefined
  coverage_percentage: number | undefined
  deployments: readonly string[]
}

export type MergedSignal = {
  readonly kind: 'signal'
  readonly handle: string
  /** The row's JSON up to its prices, without the closing brace. */
  readonly head: string
  /** `,"pricing_options":[...]`, or empty. */
  readonly tail: string
  /** `contributes[i]`: offer `i` stands in the row. */
  readonly contributes: readonly boolean[]
  readonly deployments: readonly MergedDeployment[]
  readonly type: SignalType
  readonly provider: string | undefined
  readonly countries: readonly string[] | undefined
  /** Offers differ in where they may be used: a reader who names countries may get fewer of them. */
  readonly mixed: boolean
  readonly coverage: number | undefined
  /** NaN when no option has the model. */
  readonly lowestCpm: number
  readonly lowestPercent: number
}

/** Why a signal with offers is not in the feed. */
export type Withheld = { readonly kind: 'withheld'; readonly reason: 'not_authorized' | 'no_country_left' }

const text = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)

/**
 * The offers that stand in the row. When one is authorized, no other changes a byte of the signal, under any policy;
 * when none is, the policy says whether the signal is published at all (DESIGN 5.3).
 */
function trusted(offers: readonly Offer[], policy: Policy): readonly Offer[] {
  const entitled = offers.filter(({ verdict }) => publishable(verdict, 'strict'))
  return entitled.length > 0 ? entitled : offers.filter(({ verdict }) => publishable(verdict, policy))
}

/** The offers of one upstream are one: the first by segment, so that its order of rows decides nothing. */
function onePerUpstream(offers: readonly Offer[]): Offer[] {
  const ordered = [...offers].sort(
    (a, b) =>
      text(a.agentUrl, b.agentUrl) ||
      text(a.listing.signal_agent_segment_id, b.listing.signal_agent_segment_id) ||
      text(JSON.stringify(a.listing), JSON.stringify(b.listing)),
  )
  return ordered.filter((offer, at) => offer.agentUrl !== ordered[at - 1]?.agentUrl)
}

/**
 * The reference we publish. A row of an upstream's own is referred to at that upstream, whatever source it claims; one
 * without any id is referred to by our handle, which fits the pattern and resolves here (DESIGN 5.1).
 */
export function publishedRef(identity: Identity, handle: string): SignalRef {
  if (identity.kind === 'provider') {
    return { scope: 'data_provider', data_provider_domain: identity.domain, signal_id: identity.id }
  }
  const signal_id = identity.kind === 'source' ? identity.id : handle
  return { scope: 'signal_source', signal_source_url: identity.agentUrl, signal_id }
}

/** Another host than the one that was called: kept as provenance, not as identity (DESIGN 5.1). */
function claimedSource({ listing, agentUrl }: Offer): string | undefined {
  const ref = listingRef(listing)
  if (ref?.scope !== 'signal_source' || ref.signal_source_url === agentUrl) return undefined
  return canonicalUrl(ref.signal_source_url) === agentUrl ? undefined : ref.signal_source_url
}

function joint(bounds: readonly (readonly string[] | undefined)[]): readonly string[] | undefined {
  if (bounds.length === 1) return bounds[0]
  const known = bounds.filter((bound) => bound !== undefined)
  return known.length < bounds.length ? undefined : [...new Set(known.flat())].sort()
}

function provenance(
  offer: Offer,
  handle: string,
  deployments: readonly string[],
  countries: readonly string[] | undefined,
  coverage: number | undefined,
): Provenance {
  const { verdict } = offer
  return {
    upstream: offer.upstream,
    agent_url: offer.agentUrl,
    handle,
    verdict: verdict.outcome,
    reason: 'reason' in verdict ? verdict.reason : undefined,
    mode: offer.mode === 'enumerated' ? 'enumerated' : undefined,
    claimed_source: claimedSource(offer),
    countries,
    coverage_percentage: coverage,
    deployments,
  }
}

function tailOf(options: readonly MergedOption[]): string {
  return options.length === 0
    ? ''
    : `,"pricing_options":${JSON.stringify(options.map(({ option }) => option))}`
}

/** Offers that stand in the row, in upstream order, each with where it may be used; empty when none may anywhere. */
export function standingOffers(offers: readonly Offer[], policy: Policy, definition: Definition | undefined) {
  const admitted = trusted(offers, policy)
  const standing = (admitted.length < 2 ? admitted : onePerUpstream(admitted))
    .map((offer) => ({ offer, countries: countriesOf(offer, definition) }))
    .filter(({ countries }) => countries?.length !== 0)
  return { admitted: admitted.length, standing }
}

/** Merges all offers of one identity. `definition` is the provider's, when it publishes one. */
export function mergeSignal(
  identity: Identity,
  all: readonly Offer[],
  policy: Policy,
  definition?: Definition,
): MergedSignal | Withheld {
  const { admitted, standing } = standingOffers(all, policy, definition)
  if (standing.length === 0) {
    return { kind: 'withheld', reason: admitted === 0 ? 'not_authorized' : 'no_country_left' }
  }
  const offers = standing.map(({ offer }) => offer)
  const handle = signalHandle(identityKey(identity))
  const handles = offers.map(({ agentUrl }) => offerHandle(handle, agentUrl))
  const ref = publishedRef(identity, handle)
  const { fields, restrictions, conflicts } = mergeDefinition(offers, definition)
  const { deployments, keysOf } = mergeDeployments(offers)
  const options = mergePricing(offers, handles)
  const coverage = mergeCoverage(offers, ref)
  const countries = joint(standing.map((one) => one.countries))
  const mixed = standing.some((one) => one.countries?.length !== countries?.length)

  const row: Record<string, unknown> = {
    signal_agent_segment_id: handle,
    signal_ref: ref,
    signal_id: legacyFromRef(ref),
    ...fields,
    coverage_percentage: coverage.percentage,
    coverage_forecast: coverage.forecast,
    deployments: deployments.map(({ deployment }) => deployment),
    countries,
    ext: {
      tributary: {
        offers: standing.map((one, at) =>
          provenance(
            one.offer,
            handles[at] as string,
            keysOf[at] as string[],
            mixed ? one.countries : undefined,
            at === coverage.offer ? undefined : one.offer.listing.coverage_percentage,
          ),
        ),
        restricted_attributes: restrictions.length > 0 ? restrictions : undefined,
        conflicts: conflicts.length > 0 ? conflicts : undefined,
      },
    },
  }
  return {
    kind: 'signal',
    handle,
    head: JSON.stringify(row).slice(0, -1),
    tail: tailOf(options),
    contributes: all.map((offer) => offers.includes(offer)),
    deployments,
    type: fields.signal_type as SignalType,
    provider: fields.data_provider as string | undefined,
    countries,
    mixed,
    coverage: coverage.percentage,
    lowestCpm: lowest(options, 'cpm'),
    lowestPercent: lowest(options, 'percent_of_media'),
  }
}
