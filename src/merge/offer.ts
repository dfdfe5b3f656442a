/**
 * An offer is a listing plus its verdict: one way to buy a signal (docs/house.md). The offers of a signal are written in one order,
 * whatever order they arrived in (docs/decisions.md#merging), and readers see each of them under `ext.tributary.offers`.
 */
import type { SignalRef } from '../adcp/signal.js'
import { canonicalUrl } from '../adcp/url.js'
import type { Verdict } from '../authz/rules/verdict.js'
import type { Listing, SliceMode } from '../upstreams/rows/slice.js'
import { listingRef } from './identity.js'

export type Offer = {
  /** The upstream's id, for people. Identity and order use `agentUrl` (canonical). */
  readonly upstream: string
  readonly agentUrl: string
  readonly mode: SliceMode
  readonly listing: Listing
  /** Of the listing as it is held. */
  readonly bytes: number
  readonly verdict: Verdict
}

/** What an upstream sells, before the verdict on it. */
export type SoldBy = Pick<Offer, 'agentUrl' | 'listing'>

/** Compares by UTF-16 code units: the same order on every machine, whatever its locale. */
export const byText = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)

/** By upstream, then by segment: an upstream may sell one signal as several segments. */
export function byUpstream(a: SoldBy, b: SoldBy): number {
  return (
    byText(a.agentUrl, b.agentUrl) ||
    byText(a.listing.signal_agent_segment_id, b.listing.signal_agent_segment_id)
  )
}

/** One offer by itself. Its pricing options are those whose id begins with its handle. */
export type Seller = {
  upstream: string
  agent_url: string
  handle: string
  verdict: Verdict['outcome']
  reason?: string
  mode?: 'enumerated'
  claimed_source?: string
  /** It lists no deployment: it may be asked for any destination, without a promise that it serves it. */
  destinations_not_listed?: true
}

/** The same offer together with the other offers of its row. */
export type Provenance = Seller & {
  /** Fields in which this offer is narrower than the signal. */
  countries?: readonly string[]
  /** Its own estimate, when the row publishes another offer's. */
  coverage_percentage?: number
  /** Keys of its targets (merge/deployments.ts). */
  deployments: readonly string[]
}

/**
 * The host that the listing names, when it is not the host that was called: kept as provenance, not as identity
 * (docs/decisions.md#identity).
 */
function claimedSource(ref: SignalRef | undefined, agentUrl: string): string | undefined {
  if (ref?.scope !== 'signal_source' || ref.signal_source_url === agentUrl) return undefined
  return canonicalUrl(ref.signal_source_url) === agentUrl ? undefined : ref.signal_source_url
}

/** An offer apart from what it lists. */
export type OfferedBy = Omit<Offer, 'listing' | 'bytes'>

/** An offer as readers see it. `handle`: the offer's own. */
export function sellerOf(
  { upstream, agentUrl, mode, verdict }: OfferedBy,
  listing: Pick<Listing, 'signal_ref' | 'signal_id' | 'deployments'>,
  handle: string,
): Seller {
  const seller: Seller = { upstream, agent_url: agentUrl, handle, verdict: verdict.outcome }
  if ('reason' in verdict) seller.reason = verdict.reason
  if (mode === 'enumerated') seller.mode = mode
  const claimed = claimedSource(listingRef(listing), agentUrl)
  if (claimed !== undefined) seller.claimed_source = claimed
  if (listsNone(listing)) seller.destinations_not_listed = true
  return seller
}

/**
 * Whether a listing says nothing about where it can be used: many agents say so only on activation
 * (docs/protocol.md#how-agents-differ).
 */
export const listsNone = ({ deployments }: Pick<Offer['listing'], 'deployments'>) => deployments.length === 0
