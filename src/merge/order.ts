/** The one order in which the offers of a signal stand, whatever order they arrived in (docs/decisions.md#merging). */
import type { Offer } from './offer.js'

/** What an upstream sells, before anybody judged it. */
export type SoldBy = Pick<Offer, 'agentUrl' | 'listing'>

export const byText = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)

/** By upstream, then by segment: an upstream may sell one signal as several segments. */
export function byUpstream(a: SoldBy, b: SoldBy): number {
  return (
    byText(a.agentUrl, b.agentUrl) ||
    byText(a.listing.signal_agent_segment_id, b.listing.signal_agent_segment_id)
  )
}
