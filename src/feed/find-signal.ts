/**
 * Finds the signal behind a name: a reference, or a handle of ours (docs/decisions.md#identity, #handles;
 * specification, "exact lookup"). The upstream behind a handle is read from the private slices: shared rows never hold
 * an upstream's segment and option ids.
 */
import type { PricingOption, SignalRef } from '../adcp/signal.js'
import { canonicalUrl } from '../adcp/url.js'
import { destinationKey, mergeDeployments } from '../merge/deployments.js'
import {
  HANDLE_LENGTH,
  type Identity,
  identityKey,
  offerHandle,
  signalHandle,
  signalPart,
} from '../merge/identity.js'
import { listsNone } from '../merge/offer.js'
import { mergePricing } from '../merge/row.js'
import { createRecent, type Recent } from '../process/memory.js'
import { entryOf, rowAt, type Snapshot, standingListings } from '../snapshot/snapshot.js'

/** One way to activate a signal: the upstream, and the names that it uses. */
export type ResolvedOffer = {
  upstream: string
  agentUrl: string
  /** The slice's scope: `public`, or the account or credential it was read with. */
  scope: string
  handle: string
  /** The upstream's own `signal_agent_segment_id`. */
  segmentId: string
  /** The options as published, each with the upstream's own id. */
  options: { option: PricingOption; upstreamId: string }[]
  /** Destination keys (merge/deployments.ts). */
  deployments: string[]
  /** The destination keys at which it is live. */
  live: string[]
  /** Whether it lists no deployment: only a request tells which destinations it serves. */
  anywhere: boolean
}

export type Resolved = { handle: string; ref: SignalRef; name: string; offers: ResolvedOffer[] }

function entryOfIdentity(snapshot: Snapshot, identity: Identity): number {
  return entryOf(snapshot, signalHandle(identityKey(identity)))
}

/**
 * The entry that a reference names; -1 when the feed does not show it. Product scope has no meaning outside a product.
 */
export function entryOfRef(snapshot: Snapshot, ref: SignalRef): number {
  if (ref.scope === 'product') return -1
  if (ref.scope === 'data_provider') {
    return entryOfIdentity(snapshot, {
      kind: 'provider',
      domain: ref.data_provider_domain,
      id: ref.signal_id,
    })
  }
  const agentUrl = canonicalUrl(ref.signal_source_url)
  if (agentUrl === undefined) return -1
  const entry = entryOfIdentity(snapshot, { kind: 'source', agentUrl, id: ref.signal_id })
  if (entry >= 0) return entry
  const native = entryOf(snapshot, ref.signal_id) // a row without an id of its own is referred to by our handle
  if (native < 0) return -1
  const own = rowAt(snapshot, native).signal_ref as SignalRef
  return own.scope === 'signal_source' && own.signal_source_url === agentUrl ? native : -1
}

function resolved(snapshot: Snapshot, handle: string): Resolved | undefined {
  const signal = signalPart(handle)
  const entry = entryOf(snapshot, signal)
  if (entry < 0) return undefined
  const standing = standingListings(snapshot, entry)
  const handles = standing.map(({ agentUrl, listing }) =>
    offerHandle(signal, agentUrl, listing.signal_agent_segment_id),
  )
  const optionsOf = standing.map((): ResolvedOffer['options'] => [])
  for (const { option, upstreamId, offer } of mergePricing(standing, handles)) {
    optionsOf[offer]?.push({ option, upstreamId })
  }
  const { keysOf } = mergeDeployments(standing)
  const offers = standing.map(
    ({ slice, listing }, at): ResolvedOffer => ({
      upstream: slice.upstream,
      agentUrl: slice.agentUrl,
      scope: slice.scope,
      handle: handles[at] as string,
      segmentId: listing.signal_agent_segment_id,
      options: optionsOf[at] as ResolvedOffer['options'],
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

const MOST_KEPT = 1_000 // per snapshot: popular signals are activated many times
const kept = new WeakMap<Snapshot, Recent<Resolved>>()

/**
 * What a handle of ours leads to: all offers of a signal, or the one offer that an offer handle or option id names.
 * Undefined when the feed shows no such signal or offer. Cached, because merging the offers is the slowest step of an
 * activation on our side.
 */
export function resolveHandle(snapshot: Snapshot, handle: string): Resolved | undefined {
  const handles = kept.get(snapshot) ?? createRecent<Resolved>(MOST_KEPT)
  kept.set(snapshot, handles)
  const known = handles.get(handle)
  if (known) return known
  const found = resolved(snapshot, handle)
  if (found) handles.set(handle, found)
  return found
}
