/** Rows of the sandbox's market as the upstreams of the brief benchmark tell them. */
import { createMarket } from '../sandbox/market.js'
import type { Listing } from '../src/upstreams/rows/slice.js'

export const FEED_SIGNALS = 20_000

const market = createMarket({ size: FEED_SIGNALS, seed: 1 })

export function briefListing(at: number): Listing {
  const { name, description, source, ref, id } = market.signal(at)
  return {
    ...{ name, description, data_provider: source, signal_ref: ref, signal_agent_segment_id: `seg_${id}` },
    signal_type: 'marketplace',
    coverage_percentage: at % 100,
    deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: at % 2 === 0 }],
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: 1 + (at % 7), currency: 'USD' }],
  }
}
