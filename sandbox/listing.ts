/**
 * One row of an agent's feed: the signal as this agent tells it. What the origin says and what an agent claims differ
 * on purpose, so that it shows whose word the federation publishes (docs/decisions.md#trust).
 */
import { legacyFromRef, type SignalRow } from '../src/adcp/signal.js'
import { coverageOf } from './coverage.js'
import { type Basics, basicsOf, type Definition, definitionOf, valuesOf } from './definition.js'
import { deploymentsOf, type Switched } from './deployments.js'
import type { Market, MarketSignal } from './market.js'
import { pricesOf, type RateCard } from './prices.js'
import type { Profile } from './profiles.js'

export type Terms = {
  card: RateCard
  switched: Switched | undefined
  /** Definition fields that the caller asked for beyond a row's basics; an agent gives those of its own signals. */
  fields: readonly string[]
}

const OWN_CLAIM_SHARE = 0.4

function claimsConsent(market: Market, { consent }: Profile, { index }: MarketSignal): boolean {
  return (
    consent === 'own' || (consent === 'sometimes_own' && market.chance(index, 'own claim') < OWN_CLAIM_SHARE)
  )
}

/** Of a provider's definition an agent repeats the basics, and may get the legal ones wrong or leave them out. */
function repeated(market: Market, profile: Profile, signal: MarketSignal): Basics {
  const basics = basicsOf(market, signal)
  if (profile.consent === 'silent') return { countries: basics.countries }
  if (!claimsConsent(market, profile, signal)) return basics
  const claim = basics.consent_basis?.[0] === 'legitimate_interest' ? 'contract' : 'legitimate_interest'
  return {
    ...basics,
    restricted_attributes: profile.consent === 'own' ? undefined : basics.restricted_attributes,
    consent_basis: [claim],
    art9_basis: undefined,
  }
}

/** The basics of a signal of the agent's own, and what was asked for of its definition. */
function ownWords(market: Market, signal: MarketSignal, fields: readonly string[]): Definition {
  if (fields.length === 0) return basicsOf(market, signal)
  const asked = Object.entries(definitionOf(market, signal)).filter(([field]) => fields.includes(field))
  return { ...basicsOf(market, signal), ...Object.fromEntries(asked) }
}

/** The handle under which an agent sells a signal. */
function handleOf(profile: Profile, index: number): string {
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
  const { ref, slot } = signal
  const provided = 'provider' in slot
  const words = provided ? repeated(market, profile, signal) : ownWords(market, signal, terms.fields)
  const values = valuesOf(signal)
  const coverage = coverageOf(market, profile, signal)
  const path = `${signal.source} > ${signal.theme.branch} > ${signal.name}`
  return {
    signal_ref: profile.references === 'legacy' ? undefined : ref,
    signal_id: profile.references === 'ref' ? undefined : legacyFromRef(ref),
    signal_agent_segment_id: handleOf(profile, signal.index),
    name: profile.pathNames ? path : signal.name,
    description: signal.description,
    value_type: values.value_type,
    categories: values.categories,
    range: values.range,
    signal_type: provided ? 'marketplace' : slot.kind,
    data_provider: signal.source,
    coverage_percentage: coverage.coverage_percentage,
    coverage_forecast: coverage.coverage_forecast,
    deployments: deploymentsOf(market, profile, signal, terms.switched),
    pricing_options: pricesOf(market, profile, signal, terms.card),
    ...words,
  }
}
