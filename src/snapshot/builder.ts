/**
 * `listings -> offers -> signals -> snapshot`. Pure. Only signals whose listings, verdicts, definition or policy changed
 * are merged again; the result is the same as from scratch, byte for byte.
 * One walk in key order joins what the previous snapshot knew with the rows that are new.
 */

import type { Verdict } from '../authz/verdict.js'
import { type Identity, identityOf } from '../merge/identity.js'
import type { Offer } from '../merge/offer.js'
import { mergeSignal } from '../merge/signal.js'
import type { Slice } from '../upstreams/rows/slice.js'
import { sliceListing } from '../upstreams/rows/slice.js'
import { createDraft, type OfferPlace } from './draft.js'
import { bucketOf, hashTree } from './hash-tree.js'
import type { Judge, ProviderView } from './judge.js'
import { compareKeys } from './keys.js'
import { indexSlices, type Move, type SliceIndex } from './slice-index.js'
import type { IndexedSlice, Snapshot } from './snapshot.js'

export type BuildInput = {
  /** The last snapshot of this layer, or of the layer it overlays. */
  previous?: Snapshot
  /** One a upstream: for an account's layer, with the account's slices in the place of the public ones. */
  slices: readonly Slice[]
  judge: Judge
}

const NOT_APPLICABLE: Verdict = { outcome: 'not_applicable' }

/** The offers of a previous entry in the new numbering; `whole` is false when one of them is gone. */
function carried(previous: Snapshot, entry: number, moves: SliceIndex['moves']) {
  const { at, slice, row } = previous.offers
  const offers: OfferPlace[] = []
  let whole = true
  for (let offer = at[entry] as number; offer < (at[entry + 1] as number); offer += 1) {
    const move = moves[slice[offer] as number]
    const old = row[offer] as number
    const place = move?.moved ? (move.moved[old] as number) : old
    if (!move || place < 0) whole = false
    else offers.push({ slice: move.to, row: place })
  }
  return { offers, whole }
}

/** Asks the judge once a provider, and remembers what it answered. */
function createCourt(judge: Judge) {
  const views = new Map<string, ProviderView>()
  function view(domain: string): ProviderView {
    const known = views.get(domain)
    if (known) return known
    const asked = judge(domain)
    views.set(domain, asked)
    return asked
  }
  return { view, stamps: () => new Map([...views].map(([domain, { stamp }]) => [domain, stamp])) }
}

function merged(
  slices: readonly IndexedSlice[],
  places: readonly OfferPlace[],
  view: (domain: string) => ProviderView,
) {
  const found: { listing: Offer['listing']; slice: Slice }[] = places.map(({ slice, row }) => {
    const from = (slices[slice] as IndexedSlice).slice
    return { slice: from, listing: sliceListing(from, row) }
  })
  const first = found[0] as (typeof found)[number]
  const identity = identityOf(first.listing, first.slice.agentUrl) as Identity // rows without one have no key
  const provider = identity.kind === 'provider' ? { ...identity, view: view(identity.domain) } : undefined
  const offers = found.map(
    ({ listing, slice: { upstream, agentUrl, mode } }): Offer => ({
      upstream,
      agentUrl,
      mode,
      listing,
      verdict: provider ? provider.view.decide(provider.id, agentUrl) : NOT_APPLICABLE,
    }),
  )
  return {
    domain: provider?.domain ?? '',
    signal: mergeSignal(
      identity,
      offers,
      provider?.view.policy ?? 'strict',
      provider?.view.definition(provider.id),
    ),
  }
}

/** A slice that stays in its place with all its rows in theirs. */
function isStill(move: Move | undefined, at: number): boolean {
  return move?.to === at && (move.moved?.every((to, row) => to === row) ?? true)
}

const inUpstreamOrder = (a: OfferPlace, b: OfferPlace) => a.slice - b.slice || a.row - b.row

export function buildSnapshot({ previous, slices: given, judge }: BuildInput): Snapshot {
  const { slices, moves, fresh } = indexSlices(given, previous?.slices ?? [])
  const court = createCourt(judge)
  const stale = previous?.facts.domains.map(
    (domain) => domain !== '' && court.view(domain).stamp !== previous.stamps.get(domain),
  )
  const isStale = stale?.includes(true) ?? true
  if (
    previous &&
    !isStale &&
    fresh.row.length === 0 &&
    moves.every(isStill) &&
    moves.length === slices.length
  ) {
    return { ...previous, slices, stamps: court.stamps() } // nothing happened: the same columns stand
  }
  const before = previous?.count ?? 0
  const draft = createDraft(previous, before + fresh.row.length)
  const touched = new Set<number>()

  /** Rows of `fresh` from `at` on that have one key. */
  function freshOffers(at: number): OfferPlace[] {
    const offers: OfferPlace[] = []
    for (let next = at; next < fresh.row.length; next += 1) {
      if (compareKeys(fresh.keys, next, fresh.keys, at) !== 0) break
      offers.push({ slice: fresh.slice[next] as number, row: fresh.row[next] as number })
    }
    return offers
  }

  function put(keys: Uint32Array, at: number, offers: OfferPlace[]): void {
    touched.add(bucketOf(keys, at))
    if (offers.length === 0) return
    offers.sort(inUpstreamOrder)
    const { domain, signal } = merged(slices, offers, court.view)
    if (signal.kind === 'signal') draft.add(keys, at, domain, offers, signal)
    else draft.withhold(keys, at, domain, offers)
  }

  let entry = 0
  let row = 0
  while (entry < before || row < fresh.row.length) {
    const side =
      !previous || entry === before
        ? 1
        : row === fresh.row.length
          ? -1
          : compareKeys(previous.keys, entry, fresh.keys, row)
    if (side > 0 || !previous) {
      const offers = freshOffers(row)
      put(fresh.keys, row, offers)
      row += offers.length
      continue
    }
    const { offers, whole } = carried(previous, entry, moves)
    const added = side === 0 ? freshOffers(row) : []
    row += added.length
    if (whole && added.length === 0 && !stale?.[previous.facts.domain[entry] as number]) {
      draft.keep(previous, entry, offers)
    } else {
      put(previous.keys, entry, [...offers, ...added])
    }
    entry += 1
  }

  const columns = draft.finish()
  const { tree, structure, pricing, id } = hashTree(columns, previous?.tree, touched)
  return { id, ...columns, tree, structure, pricing, slices, stamps: court.stamps() }
}
