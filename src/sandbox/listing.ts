/**
 * One row of an agent's feed: the signal as this agent tells it. What the origin says and what an agent claims differ
 * on purpose, so that it shows whose word the federation publishes (DESIGN 5.3).
 */
import { legacyFromRef } from '../adcp/reference.js'
import type { SignalRow } from '../adcp/signal.js'
import { coverageOf } from './coverage.js'
import { type Definition, definitionOf, valuesOf } from './definition.js'
import { deploymentsOf, type Switched } from './deployments.js'
import type { Market, MarketSignal } from './market.js'
import { pricesOf, type RateCard } from './prices.js'
import type { Profile } from './profiles.js'

export type Terms = { card: RateCard; switched: Switched | undefined }

const OWN_CLAIM_SHARE = 0.4

function referenceOf(
  { references }: Profile,
  { ref }: MarketSignal,
): Pick<SignalRow, 'signal_ref' | 'signal_id'> {
  const legacy = legacyFromRef(ref)
  return {
    ...(references === 'legacy' ? {} : { signal_ref: ref }),
    ...(references === 'ref' || !legacy ? {} : { signal_id: legacy }),
  }
}

function claimsConsent(market: Market, { consent }: Profile, { index }: MarketSignal): boolean {
  return (
    consent === 'own' || (consent === 'sometimes_own' && market.chance(index, 'own claim') < OWN_CLAIM_SHARE)
  )
}

/** Of a provider's definition an agent repeats the part that fits on a feed row, and may get the basis wrong. */
function repeated(market: Market, profile: Profile, signal: MarketSignal, origin: Definition): Definition {
  const { restricted_attributes, policy_categories, data_sources, methodology, countries } = origin
  const { refresh_cadence, consent_basis, art9_basis } = origin
  if (profile.consent === 'silent') return { ...(countries ? { countries } : {}) }
  const own = claimsConsent(market, profile, signal)
  const basis = own
    ? [consent_basis?.[0] === 'legitimate_interest' ? 'contract' : 'legitimate_interest']
    : consent_basis
  return {
    ...(restricted_attributes && profile.consent !== 'own' ? { restricted_attributes } : {}),
    ...(policy_categories ? { policy_categories } : {}),
    ...(data_sources ? { data_sources } : {}),
    ...(methodology ? { methodology } : {}),
    ...(refresh_cadence ? { refresh_cadence } : {}),
    ...(countries ? { countries } : {}),
    ...(basis ? { consent_basis: basis } : {}),
    ...(art9_basis && !own ? { art9_basis } : {}),
  }
}

/** The handle under which an agent sells a signal. */
export function handleOf(profile: Profile, index: number): string {
  return `${profile.handlePrefix}${index.toString(36)}`
}

/** The signal index in one of an agent's handles, or undefined when the handle is not one of its own. */
export function indexOfHandle(profile: Profile, handle: string): number | undefined {
  if (!handle.startsWith(profile.handlePrefix)) return undefined
  const index = Number.parseInt(handle.slice(profile.handlePrefix.length), 36)
  return index >= 0 && handleOf(profile, index) === handle ? index : undefined
}

/** One row of the feed of the agent with this profile. */
export function listingOf(market: Market, profile: Profile, signal: MarketSignal, terms: Terms): SignalRow {
  const origin = definitionOf(market, signal)
  const pricing = pricesOf(market, profile, signal, terms.card)
  const path = `${signal.source} > ${signal.theme.branch} > ${signal.name}`
  return {
    ...referenceOf(profile, signal),
    signal_agent_segment_id: handleOf(profile, signal.index),
    name: profile.pathNames ? path : signal.name,
    description: signal.description,
    ...valuesOf(signal),
    signal_type: 'provider' in signal.slot ? 'marketplace' : signal.slot.kind,
    data_provider: signal.source,
    ...coverageOf(market, profile, signal),
    deployments: deploymentsOf(market, profile, signal, terms.switched),
    ...(pricing ? { pricing_options: pricing } : {}),
    ...('provider' in signal.slot ? repeated(market, profile, signal, origin) : origin),
  }
}
