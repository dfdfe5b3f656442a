/**
 * An offer is a listing plus its verdict: one way to buy a signal (docs/house.md). This file says which signal a listing belongs to,
 * the handles made from that (docs/decisions.md#identity, #handles), how readers see an offer, under `ext.tributary.offers`, and in
 * which order the offers of a signal are written, whatever order they arrived in (docs/decisions.md#merging). Handles are pure
 * functions of the identity: the same on every replica and after every restart.
 */
import { hash } from 'node:crypto'
import { refFromLegacy, type SignalRef } from '../adcp/signal.js'
import { canonicalUrl } from '../adcp/url.js'
import type { Verdict } from '../authz/rules/verdict.js'
import { createRecent } from '../process/memory.js'
import type { Listing, SliceMode } from '../upstreams/rows/slice.js'

export type Offer = {
  /** The upstream's id, for people. Identity and order use `agentUrl` (canonical). */
  readonly upstream: string
  readonly agentUrl: string
  readonly mode: SliceMode
  readonly listing: Listing
  readonly verdict: Verdict
}

/** What an upstream sells, before the verdict on it. */
export type SoldBy = Pick<Offer, 'agentUrl' | 'listing'>

/** `kind` names which rule of docs/decisions.md#identity gave the identity. */
export type Identity =
  | { kind: 'provider'; domain: string; id: string }
  | { kind: 'source'; agentUrl: string; id: string }
  | { kind: 'native'; agentUrl: string; segment: string }

/** Length of a signal's handle: the part before the first dot of offer handles and option ids. */
export const HANDLE_LENGTH = 26

/** Bytes of the identity's digest in a handle: they order the feed and find a signal in it. */
export const KEY_BYTES = 16

function digest(text: string, characters: number): string {
  return hash('sha256', text, 'base64url').slice(0, characters)
}

/** Millions of signals share few option ids, so each is hashed once. */
const tags = createRecent<string>(20_000)

function tag(text: string): string {
  const known = tags.get(text)
  if (known !== undefined) return known
  const made = digest(text, 10)
  tags.set(text, made)
  return made
}

/** The listing's reference; legacy ids are read as docs/decisions.md#identity says. */
function listingRef(listing: Pick<Listing, 'signal_ref' | 'signal_id'>): SignalRef | undefined {
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

/** One string per identity. The separator is a space, which cannot occur in a domain, a canonical url or a local id. */
export function identityKey(identity: Identity): string {
  if (identity.kind === 'provider') return `provider ${identity.domain} ${identity.id}`
  if (identity.kind === 'source') return `source ${identity.agentUrl} ${identity.id}`
  return `native ${identity.agentUrl} ${identity.segment}`
}

/** The handle of an identity's digest, of which the first bytes are enough: base64url. */
export const digestHandle = (digest: string) => `sig_${digest.slice(0, HANDLE_LENGTH - 4)}`

/** `signal_agent_segment_id` as we publish it. */
export const signalHandle = (key: string) => digestHandle(hash('sha256', key, 'base64url'))

/** The first bits of the identity's digest, read from a handle; undefined for a text that is not one of our handles. */
export function handleKey(handle: string): Uint8Array | undefined {
  if (!/^sig_[A-Za-z0-9_-]{22}$/.test(handle)) return undefined
  return Buffer.from(handle.slice(4), 'base64url').subarray(0, KEY_BYTES)
}

/** The signal's handle within any handle of ours: of a signal, an offer or a pricing option. */
export function signalPart(handle: string): string {
  return handle.slice(0, HANDLE_LENGTH)
}

/** Names one way to buy the signal: an upstream and the segment it sells the signal as (there may be several). */
export function offerHandle(handle: string, agentUrl: string, segmentId: string): string {
  return `${handle}.${digest(`${agentUrl} ${segmentId}`, 8)}`
}

/**
 * `pricing_option_id` as we publish it: unique in the feed, although many upstreams use one id for all their signals.
 */
export function optionId(offer: string, upstreamOptionId: string): string {
  return `${offer}.${tag(upstreamOptionId)}`
}

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

/** An offer as readers see it. `handle`: the offer's own. */
export function sellerOf(
  { upstream, agentUrl, mode, verdict }: Omit<Offer, 'listing'>,
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
