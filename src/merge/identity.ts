/**
 * Who a signal is, and the handles that follow from it (DESIGN 5.1, 5.2).
 * Handles are pure functions of identity: the same on every replica and after every restart.
 */
import { hash } from 'node:crypto'
import { refFromLegacy, type SignalRef } from '../adcp/reference.js'
import type { Listing } from '../upstreams/slice.js'

/** `kind` names which rule of DESIGN 5.1 gave the identity. */
export type Identity =
  | { kind: 'provider'; domain: string; id: string }
  | { kind: 'source'; agentUrl: string; id: string }
  | { kind: 'native'; agentUrl: string; segment: string }

/** Length of a signal's handle: what precedes the first dot of offer handles and option ids. */
export const HANDLE_LENGTH = 26

function digest(text: string, characters: number): string {
  return hash('sha256', text, 'base64url').slice(0, characters)
}

/** The listing's reference, legacy ids read as DESIGN 5.1 says. */
export function listingRef(listing: Listing): SignalRef | undefined {
  return listing.signal_ref ?? (listing.signal_id && refFromLegacy(listing.signal_id))
}

/** Undefined for product scope, which never enters the wholesale feed. `agentUrl` is canonical. */
export function identityOf(listing: Listing, agentUrl: string): Identity | undefined {
  const ref = listingRef(listing)
  if (!ref) return { kind: 'native', agentUrl, segment: listing.signal_agent_segment_id }
  if (ref.scope === 'data_provider') {
    return { kind: 'provider', domain: ref.data_provider_domain, id: ref.signal_id }
  }
  if (ref.scope === 'signal_source') return { kind: 'source', agentUrl, id: ref.signal_id }
  return undefined
}

/** One string per identity. A space cannot stand in a domain, a canonical url or a local id. */
export function identityKey(identity: Identity): string {
  if (identity.kind === 'provider') return `provider ${identity.domain} ${identity.id}`
  if (identity.kind === 'source') return `source ${identity.agentUrl} ${identity.id}`
  return `native ${identity.agentUrl} ${identity.segment}`
}

/** `signal_agent_segment_id` as we publish it. */
export function signalHandle(key: string): string {
  return `sig_${digest(key, HANDLE_LENGTH - 4)}`
}

/** Pins one upstream's way of selling the signal. */
export function offerHandle(handle: string, agentUrl: string): string {
  return `${handle}.${digest(agentUrl, 8)}`
}

/** `pricing_option_id` as we publish it: unique in the feed although many upstreams reuse one id for all signals. */
export function optionId(offer: string, upstreamOptionId: string): string {
  return `${offer}.${digest(upstreamOptionId, 10)}`
}
