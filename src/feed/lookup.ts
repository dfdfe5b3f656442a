/**
 * From a name to the signal: references, and the handles that we issue (docs/decisions.md#identity, #handles;
 * specification, "exact lookup"). What a handle routes to is read from the private slices: upstream segment and
 * option ids never stand in shared rows.
 */
import { LRUCache } from 'lru-cache'
import type { SignalRef } from '../adcp/reference.js'
import type { PricingOption } from '../adcp/signal.js'
import { canonicalUrl } from '../adcp/url.js'
import { destinationKey, mergeDeployments } from '../merge/deployments.js'
import {
  HANDLE_LENGTH,
  handleKey,
  type Identity,
  identityKey,
  offerHandle,
  signalHandle,
  signalPart,
} from '../merge/identity.js'
import { listsNone } from '../merge/offer.js'
import { mergePricing } from '../merge/pricing.js'
import { findKey, putKey, WORDS } from '../snapshot/keys.js'
import { handleAt, rowAt, type Snapshot, standingListings } from '../snapshot/snapshot.js'

/** One way to activate a signal: at which upstream, under which names. */
export type ResolvedOffer = {
  upstream: string
  agentUrl: string
  /** The slice's scope: `public`, or the account or credential it was read with. */
  scope: string
  handle: string
  /** The upstream's own `signal_agent_segment_id`. */
  segmentId: string
  /** As published, each with the upstream's own id. */
  options: { option: PricingOption; upstreamId: string }[]
  /** Destination keys (merge/deployments.ts). */
  deployments: string[]
  /** Those of them where it is live. */
  live: string[]
  /** It lists no deployment: what it serves is learnt by asking. */
  anywhere: boolean
}

export type Resolved = { handle: string; ref: SignalRef; name: string; offers: ResolvedOffer[] }

/** The entry of a signal's handle; -1 when the feed does not show it. */
function entryOfHandle(snapshot: Snapshot, handle: string): number {
  const bytes = handleKey(handle)
  if (!bytes) return -1
  const key = new Uint32Array(WORDS)
  putKey(key, 0, bytes)
  const entry = findKey(snapshot.keys, snapshot.count, key)
  return entry >= 0 && snapshot.rows.length[entry] !== 0 && handleAt(snapshot, entry) === handle ? entry : -1
}

function entryOf(snapshot: Snapshot, identity: Identity): number {
  return entryOfHandle(snapshot, signalHandle(identityKey(identity)))
}

/** The entry a reference names; -1 when the feed does not show it. Product scope means nothing outside a product. */
export function entryOfRef(snapshot: Snapshot, ref: SignalRef): number {
  if (ref.scope === 'product') return -1
  if (ref.scope === 'data_provider') {
    return entryOf(snapshot, { kind: 'provider', domain: ref.data_provider_domain, id: ref.signal_id })
  }
  const agentUrl = canonicalUrl(ref.signal_source_url)
  if (agentUrl === undefined) return -1
  const entry = entryOf(snapshot, { kind: 'source', agentUrl, id: ref.signal_id })
  if (entry >= 0) return entry
  const native = entryOfHandle(snapshot, ref.signal_id) // a row without any id of its own goes by our handle
  if (native < 0) return -1
  const own = rowAt(snapshot, native).signal_ref as SignalRef
  return own.scope === 'signal_source' && own.signal_source_url === agentUrl ? native : -1
}

function resolved(snapshot: Snapshot, handle: string): Resolved | undefined {
  const signal = signalPart(handle)
  const entry = entryOfHandle(snapshot, signal)
  if (entry < 0) return undefined
  const standing = standingListings(snapshot, entry)
  const handles = standing.map(({ agentUrl, listing }) =>
    offerHandle(signal, agentUrl, listing.signal_agent_segment_id),
  )
  const options = mergePricing(standing, handles)
  const { keysOf } = mergeDeployments(standing)
  const offers = standing.map(
    ({ slice, listing }, at): ResolvedOffer => ({
      upstream: slice.upstream,
      agentUrl: slice.agentUrl,
      scope: slice.scope,
      handle: handles[at] as string,
      segmentId: listing.signal_agent_segment_id,
      options: options
        .filter(({ offer }) => offer === at)
        .map(({ option, upstreamId }) => ({ option, upstreamId })),
      deployments: keysOf[at] as string[],
      live: listing.deployments.filter(({ is_live }) => is_live).flatMap((one) => destinationKey(one) ?? []),
      anywhere: listsNone(listing),
    }),
  )
  const pinned =
    handle.length === HANDLE_LENGTH
      ? offers
      : offers.filter(
          (offer) =>
            offer.handle === handle ||
            offer.options.some(({ option }) => option.pricing_option_id === handle),
        )
  if (pinned.length === 0) return undefined
  const { signal_ref: ref, name } = rowAt(snapshot, entry) as { signal_ref: SignalRef; name: string }
  return { handle: signal, ref, name, offers: pinned }
}

const MOST_KEPT = 1_000 // of a snapshot: what is activated often is activated many times over
const kept = new WeakMap<Snapshot, LRUCache<string, Resolved>>()

/**
 * Where a handle of ours leads: all offers of a signal, or the one that an offer handle or an option id pins. Undefined
 * when the feed shows no such signal or offer. Merging a signal's offers takes longer than all else of an activation's way here.
 */
export function resolveHandle(snapshot: Snapshot, handle: string): Resolved | undefined {
  const handles = kept.get(snapshot) ?? new LRUCache<string, Resolved>({ max: MOST_KEPT })
  kept.set(snapshot, handles)
  const known = handles.get(handle)
  if (known) return known
  const found = resolved(snapshot, handle)
  if (found) handles.set(handle, found)
  return found
}
