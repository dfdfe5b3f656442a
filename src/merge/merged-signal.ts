/**
 * `offers -> signal`: one published row from all the ways to buy one identity (docs/decisions.md#trust, #merging), and the
 * same row for a reader who names countries, merged again from the offers that may be used there. What the signal is stays the same
 * then, above all its restrictions. Pure: the same offers give the same bytes, in whatever order they arrived.
 */
import type { SignalRef, SignalType, ValueType } from '../adcp/signal.js'
import { type Policy, publishable } from '../authz/rules/verdict.js'
import { type Conflict, conflictsAmong, countriesOf, type Definition, mergeDefinition } from './definition.js'
import { type Identity, identityKey, offerHandle, signalHandle } from './identity.js'
import { byText, byUpstream, type Offer, type Provenance, type SoldBy, sellerOf } from './offer.js'
import { type Row, type Standing, writeRow } from './row.js'

export type MergedSignal = Row & {
  readonly kind: 'signal'
  readonly handle: string
  /** `contributes[i]`: whether offer `i` is part of the row. */
  readonly contributes: readonly boolean[]
  /** `bounds[i]`: the countries in which offer `i` may be used; undefined without a bound. */
  readonly bounds: readonly (readonly string[] | undefined)[]
  readonly type: SignalType
  readonly valueType: ValueType | undefined
  readonly provider: string | undefined
}

/** Why a signal with offers is not in the feed. */
type Withheld = { readonly kind: 'withheld'; readonly reason: 'not_authorized' | 'no_country_left' }

/**
 * The offers that make the row. When one of them is authorized, no other may change a byte of the signal, under any
 * policy. When none is, the policy decides whether the signal is published (docs/decisions.md#trust).
 */
function trusted(offers: readonly Offer[], policy: Policy): readonly Offer[] {
  const entitled = offers.filter(({ verdict }) => publishable(verdict, 'strict'))
  return entitled.length > 0 ? entitled : offers.filter(({ verdict }) => publishable(verdict, policy))
}

/**
 * In the order of merge/offer.ts. A segment that one upstream gives twice counts as one offer, because nothing could
 * tell the two apart. Reading refuses such rows (upstreams/rows/new-slice.ts); if one got through, the order of rows
 * would still decide nothing.
 */
function inOrder(offers: readonly Offer[]): readonly Offer[] {
  if (offers.length < 2) return offers
  return [...offers]
    .sort((a, b) => byUpstream(a, b) || byText(JSON.stringify(a.listing), JSON.stringify(b.listing)))
    .filter((offer, at, all) => at === 0 || byUpstream(offer, all[at - 1] as Offer) !== 0)
}

/**
 * No row has more offers, destinations and prices together than this: it would take more than 30 ms to take the row apart
 * for a reader. An offer of much text counts as one of them for each `PART_BYTES`, because all of its text may stand in the row.
 */
const MOST_PARTS = 6_000
const PART_BYTES = 700

function sizeOf({ listing, bytes }: Offer): number {
  const parts = 1 + listing.deployments.length + (listing.pricing_options?.length ?? 0)
  return Math.max(parts, bytes / PART_BYTES)
}

/**
 * When all offers together have too much, every upstream has an equal share of the room: one that lists little loses nothing
 * to one that lists much, be it in one offer or in thousands. Of one upstream's offers the smallest stay.
 */
function withinRoom(offers: readonly Offer[]): readonly Offer[] {
  if (offers.length < 2) return offers
  if (offers.reduce((sum, offer) => sum + sizeOf(offer), 0) <= MOST_PARTS) return offers
  const taken = new Map<string, number>()
  const inTurn = offers
    .map((offer) => ({ offer, size: sizeOf(offer) }))
    .sort((a, b) => a.size - b.size)
    .map(({ offer, size }) => {
      const share = (taken.get(offer.agentUrl) ?? 0) + size
      taken.set(offer.agentUrl, share)
      return { offer, size, share }
    })
    .sort((a, b) => a.share - b.share)
  const kept = new Set<Offer>()
  let room = MOST_PARTS
  for (const { offer, size } of inTurn) {
    room -= size
    if (room < 0 && kept.size > 0) break
    kept.add(offer)
  }
  return offers.filter((offer) => kept.has(offer))
}

/**
 * The reference that we publish. An upstream's own signal is referred to at that upstream, whatever source the row
 * claims. A signal without any id is referred to by our handle, which fits the pattern and resolves here
 * (docs/decisions.md#identity).
 */
export function publishedRef(identity: Identity, handle: string): SignalRef {
  if (identity.kind === 'provider') {
    return { scope: 'data_provider', data_provider_domain: identity.domain, signal_id: identity.id }
  }
  const signal_id = identity.kind === 'source' ? identity.id : handle
  return { scope: 'signal_source', signal_source_url: identity.agentUrl, signal_id }
}

type Usable = { offer: Offer; countries: readonly string[] | undefined }

/**
 * The offers that the policy admits; those of them that a row has room for; and those that make the row, each with the countries
 * in which it may be used. An offer without any such country is left out.
 */
export function standingOffers(offers: readonly Offer[], policy: Policy, definition: Definition | undefined) {
  const admitted = trusted(offers, policy)
  const roomy = withinRoom(inOrder(admitted))
  const standing = roomy
    .map((offer): Usable => ({ offer, countries: countriesOf(offer, definition) }))
    .filter(({ countries }) => countries?.length !== 0)
  return { admitted, roomy, standing }
}

/** Merges all offers of one identity. `definition` is the provider's, if it publishes one. */
export function mergeSignal(
  identity: Identity,
  all: readonly Offer[],
  policy: Policy,
  definition?: Definition,
): MergedSignal | Withheld {
  const { admitted, roomy, standing } = standingOffers(all, policy, definition)
  if (standing.length === 0) {
    return { kind: 'withheld', reason: admitted.length === 0 ? 'not_authorized' : 'no_country_left' }
  }
  const offers = standing.map(({ offer }) => offer)
  const boundOf = new Map(standing.map(({ offer, countries }) => [offer, countries]))
  const handle = signalHandle(identityKey(identity))
  const described = mergeDefinition(offers, roomy, definition, admitted)
  const row = writeRow(
    { handle, ref: publishedRef(identity, handle), ...described },
    standing.map(({ offer, countries }) => ({
      seller: sellerOf(
        offer,
        offer.listing,
        offerHandle(handle, offer.agentUrl, offer.listing.signal_agent_segment_id),
      ),
      listing: offer.listing,
      countries,
    })),
  )
  return {
    kind: 'signal',
    handle,
    ...row,
    contributes: all.map((offer) => boundOf.has(offer)),
    bounds: all.map((offer) => boundOf.get(offer)),
    type: described.fields.signal_type as SignalType,
    valueType: described.fields.value_type as ValueType | undefined,
    provider: described.fields.data_provider as string | undefined,
  }
}

/** The members of a published row that narrowing reads or writes anew. */
export type PublishedRow = {
  signal_agent_segment_id: string
  signal_ref: SignalRef
  signal_id?: unknown
  coverage_percentage?: unknown
  coverage_forecast?: unknown
  countries?: unknown
  deployments?: unknown
  pricing_options?: unknown
  ext: {
    tributary: { offers: readonly Provenance[]; restricted_attributes?: string[]; conflicts?: Conflict[] }
  }
}

/** `sold`: the listings that the row is made from. Undefined when no offer may be used in any of the countries. */
export function narrowRow(
  row: PublishedRow,
  sold: readonly SoldBy[],
  countries: readonly string[],
): Row | undefined {
  const {
    signal_agent_segment_id: handle,
    signal_ref: ref,
    signal_id: _,
    coverage_percentage: __,
    coverage_forecast: ___,
    countries: ____,
    deployments: _____,
    pricing_options: ______,
    ext: { tributary },
    ...fields
  } = row
  const listings = new Map(
    sold.map(({ agentUrl, listing }) => [
      offerHandle(handle, agentUrl, listing.signal_agent_segment_id),
      listing,
    ]),
  )
  const kept = tributary.offers.flatMap((offer): Standing[] => {
    const { countries: bound, coverage_percentage: _, deployments: __, ...seller } = offer
    const listing = listings.get(offer.handle)
    const isUsable = !bound || bound.some((country) => countries.includes(country))
    return listing && isUsable ? [{ seller, listing, countries: bound }] : []
  })
  if (kept.length === 0) return undefined
  const left = kept.map(({ seller: { upstream }, listing }) => ({ upstream, listing }))
  return writeRow(
    {
      handle,
      ref,
      fields,
      restrictions: tributary.restricted_attributes ?? [],
      conflicts: conflictsAmong(tributary.conflicts ?? [], left, fields),
    },
    kept,
  )
}
