/**
 * How one signal of a snapshot came about: every offer with its verdict and fate, which offer each part was taken
 * from, how conflicts were resolved (docs/decisions.md#trust, #merging). It decides nothing itself: the rules of
 * `merge` are asked again.
 */
import type { Evidence } from '../authz/report/evidence.js'
import type { Policy, Verdict } from '../authz/rules/verdict.js'
import { mergeCoverage } from '../merge/coverage.js'
import { type Definition, mergeDefinition } from '../merge/definition.js'
import { mergeDeployments } from '../merge/deployments.js'
import { type Identity, identityKey, identityOf, offerHandle, signalHandle } from '../merge/identity.js'
import type { Judge } from '../merge/judge.js'
import { publishedRef, standingOffers } from '../merge/merged-signal.js'
import type { Offer } from '../merge/offer.js'
import { findKey } from '../snapshot/keys.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { sliceListing } from '../upstreams/rows/slice.js'

/** What became of an offer. */
type Fate =
  | 'stands'
  | 'not_authorized' // its verdict, under the current policy, excludes it
  | 'outranked' // the policy would admit it, but there is an authorized offer
  | 'no_room' // the signal's offers list more destinations and prices than one row may: the largest are left out
  | 'no_country_left' // provider, grant and row together allow no country

export type OfferExplanation = {
  upstream: string
  agent_url: string
  handle: string
  /** The upstream's own. */
  segment_id: string
  fate: Fate
  verdict: Verdict['outcome']
  evidence?: Evidence
  countries?: readonly string[]
  deployments: readonly string[]
  pricing_options: number
}

/** A field on which offers that stand, or the provider, do not agree. */
type Resolution = { field: string; taken_from: string; differing: readonly string[] }

export type SignalExplanation = {
  handle: string
  ref: unknown
  name: string
  shown: boolean
  policy?: Policy
  /** The provider published a definition, whose words come first. */
  defined_by_provider: boolean
  offers: OfferExplanation[]
  deployments: { key: string; taken_from: string; is_live: boolean }[]
  coverage_taken_from?: string
  conflicts: Resolution[]
}

type ExplainInput = {
  snapshot: Snapshot
  /** The signal's place in the order of the feed (snapshot/keys.ts). */
  key: Uint32Array
  judge: Judge
  evidence(domain: string, verdict: Verdict): Evidence | undefined
}

type Found = { identity: Identity; offers: Offer[]; shown: boolean }

const NOT_APPLICABLE: Verdict = { outcome: 'not_applicable' }
const NOBODY = 'nobody: left out'
const PROVIDER = 'the provider'

/** The listings of one identity, withheld ones included; undefined when no slice has any. */
function find({ snapshot, key, judge }: ExplainInput): Found | undefined {
  const entry = findKey(snapshot.keys, snapshot.count, key)
  if (entry < 0) return undefined
  const { at, slice, row } = snapshot.offers
  const found: Found[] = []
  for (let one = at[entry] as number; one < (at[entry + 1] as number); one += 1) {
    const from = snapshot.slices[slice[one] as number]?.slice
    const listing = from && sliceListing(from, row[one] as number)
    const identity = listing && identityOf(listing, from.agentUrl)
    if (!identity) continue
    const { upstream, agentUrl, mode } = from
    const verdict =
      identity.kind === 'provider' ? judge(identity.domain).decide(identity.id, agentUrl) : NOT_APPLICABLE
    found.push({ identity, offers: [{ upstream, agentUrl, mode, listing, verdict }], shown: false })
  }
  const [first] = found
  if (!first) return undefined
  return {
    identity: first.identity,
    offers: found.flatMap(({ offers }) => offers),
    shown: snapshot.rows.length[entry] !== 0,
  }
}

function isEntitled({ verdict: { outcome } }: Offer): boolean {
  return outcome === 'authorized' || outcome === 'not_applicable'
}

function standingFirst(a: { fate: Fate }, b: { fate: Fate }): number {
  return Number(b.fate === 'stands') - Number(a.fate === 'stands')
}

function fateOf(
  offer: Offer,
  all: readonly Offer[],
  standing: readonly Offer[],
  policy: Policy,
  definition: Definition | undefined,
): Fate {
  const alone = standingOffers([offer], policy, definition)
  if (alone.admitted.length === 0) return 'not_authorized'
  if (alone.standing.length === 0) return 'no_country_left'
  if (!isEntitled(offer) && all.some(isEntitled)) return 'outranked'
  return standing.includes(offer) ? 'stands' : 'no_room'
}

function resolutions(offers: readonly Offer[], definition: Definition | undefined): Resolution[] {
  const { fields, conflicts } = mergeDefinition(offers, offers, definition)
  return conflicts.map(({ field, upstreams }) => {
    const own = definition?.[field as keyof Definition] !== undefined
    const first = offers.find(({ upstream }) => !upstreams.includes(upstream))?.upstream
    const taken_from = fields[field] === undefined ? NOBODY : own ? PROVIDER : (first ?? NOBODY)
    return { field, taken_from, differing: upstreams }
  })
}

/** Undefined when no upstream in the snapshot lists the signal. */
export function explainSignal(input: ExplainInput): SignalExplanation | undefined {
  const found = find(input)
  if (!found) return undefined
  const { identity, offers, shown } = found
  const handle = signalHandle(identityKey(identity))
  const provider = identity.kind === 'provider' ? input.judge(identity.domain) : undefined
  const definition = identity.kind === 'provider' ? provider?.definition(identity.id) : undefined
  const policy = provider?.policy ?? 'strict'
  const standing = standingOffers(offers, policy, definition).standing.map(({ offer }) => offer)
  const upstreamAt = (at: number) => standing[at]?.upstream ?? NOBODY
  const ref = publishedRef(identity, handle)
  const coverage = mergeCoverage(standing, ref).offer
  const { keysOf } = mergeDeployments(offers)

  return {
    handle,
    ref,
    name: definition?.name ?? (standing[0] ?? offers[0])?.listing.name ?? '',
    shown,
    ...(provider && { policy }),
    defined_by_provider: definition !== undefined,
    offers: offers
      .map((offer, at) => {
        const { upstream, agentUrl, listing, verdict } = offer
        const evidence = identity.kind === 'provider' ? input.evidence(identity.domain, verdict) : undefined
        const countries = standingOffers([offer], 'observe', definition).standing[0]?.countries
        return {
          upstream,
          agent_url: agentUrl,
          handle: offerHandle(handle, agentUrl, listing.signal_agent_segment_id),
          segment_id: listing.signal_agent_segment_id,
          fate: fateOf(offer, offers, standing, policy, definition),
          verdict: verdict.outcome,
          ...(evidence && { evidence }),
          ...(countries && { countries }),
          deployments: keysOf[at] ?? [],
          pricing_options: listing.pricing_options?.length ?? 0,
        }
      })
      .sort(standingFirst),
    deployments: mergeDeployments(standing).deployments.map(({ key, offer, deployment }) => ({
      key,
      taken_from: upstreamAt(offer),
      is_live: deployment.is_live,
    })),
    ...(coverage >= 0 && { coverage_taken_from: upstreamAt(coverage) }),
    conflicts: resolutions(standing, definition),
  }
}
