/** What an agent of the demo market says of itself: get_adcp_capabilities (docs/protocol.md#versions). */
import type { Market } from './market.js'
import { done, type Outcome } from './outcome.js'
import { type AgentId, PROVIDERS, type ProviderId } from './parties.js'
import type { Profile } from './profiles.js'

const REPLAY_SECONDS = 86_400

/** The providers whose signals an agent offers. */
function domainsOf(market: Market, id: AgentId): string[] {
  return (Object.keys(PROVIDERS) as ProviderId[])
    .filter((provider) => {
      const offers = market.lane(
        (slot) => 'provider' in slot && slot.provider === provider && slot.offeredBy.includes(id),
      )
      return offers.count > 0
    })
    .map((provider) => PROVIDERS[provider].domain)
}

/** An agent of 3.0 names no discovery modes and no versioning: what it leaves out means brief. */
export function capabilitiesOf(market: Market, id: AgentId, profile: Profile): Outcome {
  const owns = market.lane((slot) => 'owner' in slot && slot.owner === id).count > 0
  const domains = domainsOf(market, id)
  const current = profile.release === '3.1'
  return done({
    adcp: {
      major_versions: [3],
      supported_versions: current ? ['3.0', '3.1'] : ['3.0'],
      idempotency: { supported: true, replay_ttl_seconds: REPLAY_SECONDS },
    },
    supported_protocols: ['signals'],
    specialisms: owns ? ['signal-marketplace', 'signal-owned'] : ['signal-marketplace'],
    account: { supported_billing: ['operator', 'agent'], sandbox: true },
    signals: {
      ...(domains.length > 0 ? { data_provider_domains: domains } : {}),
      ...(current ? { discovery_modes: [...profile.modes] } : {}),
    },
    ...(current
      ? {
          wholesale_feed_versioning: {
            supported: true,
            pricing_version_separate: profile.separatePricing,
            cache_scope_account: profile.accountPricing,
          },
        }
      : {}),
    message: 'Capabilities of this agent.',
  })
}
