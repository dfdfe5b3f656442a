/**
 * `listings -> offers -> signals -> snapshot`. Pure. Only signals whose listings, verdicts, definition or policy
 * changed are merged again; the result is byte for byte the same as a full merge. One walk in key order joins the
 * previous snapshot with the new rows.
 */
import type { Judge, ProviderView, Verdict } from '../authz/rules/verdict.js'
import { type Identity, identityKey, identityOf, keyHandle, signalHandle } from '../merge/identity.js'
import { compareKeys, countBelow, keyAt } from '../merge/keys.js'
import { mergeSignal } from '../merge/merged-signal.js'
import type { Offer } from '../merge/offer.js'
import { spliceSignal } from '../merge/splice.js'
import { createMeter, drained, type InPortions, rowUnits } from '../process/portions.js'
import { createColumn, mapped, u8, u32 } from '../process/shared-memory.js'
import { createRowFinder, type RowFinder } from '../upstreams/rows/slab.js'
import { type Slice, sliceListing } from '../upstreams/rows/slice.js'
import { locateMembers, membersRoom, releaseMembers, writtenRef } from '../upstreams/rows/written.js'
import type { Rows } from './columns.js'
import { bucketOf, hashTree } from './digests.js'
import { createDraft } from './draft.js'
import { joined, type Run, weaveOf } from './join.js'
import { carryOffers, indexSlices, type KeyHalf, type Move } from './slice-index.js'
import { type IndexedSlice, memoryOf, NO_MEMORY, type OfferPlace, type Snapshot } from './snapshot.js'

type BuildInput = {
  /** The last public snapshot. The new one shares its memory for everything that did not change. */
  previous?: Snapshot
  /** One per upstream; for an account's layer, the account's slices replace the public ones. */
  slices: readonly Slice[]
  judge: Judge
  /** Only these signals; there is no previous snapshot then. */
  only?: KeyHalf
}

/** Rows that are touched before the first of them is merged: few enough that they stay in the nearest caches. */
const AHEAD = 32

const NOT_APPLICABLE: Verdict = { outcome: 'not_applicable' }

/** Asks the judge once per provider, and remembers the answer. */
function createProviderViews(judge: Judge) {
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

/** What is said of an identity: by its provider, or by nobody. */
function sayingOf(identity: Identity, view: View) {
  if (identity.kind !== 'provider') {
    return { domain: '', policy: 'strict' as const, definition: undefined, verdictOn: () => NOT_APPLICABLE }
  }
  const { domain, id } = identity
  const { policy, decide, definition } = view(domain)
  return { domain, policy, definition: definition(id), verdictOn: (agentUrl: string) => decide(id, agentUrl) }
}

type View = (domain: string) => ProviderView
type HandleOf = (identity: Identity) => string

const members = membersRoom()

/**
 * The only offer of a signal, from its bytes alone; undefined when its listing has to be parsed, as one whose text is not
 * plain (upstreams/rows/written.ts). `handleOf`: the signal's handle.
 */
function spliced(slice: Slice, finder: RowFinder, row: number, view: View, handleOf: HandleOf) {
  const memory = finder.memoryOf(row)
  const start = finder.startOf(row)
  const end = start + (slice.rows.length[row] as number)
  const ref = writtenRef(memory, start, end)
  if (!ref || !locateMembers(members, memory, start, end, row, slice.rows.places)) return undefined
  const { upstream, agentUrl, mode } = slice
  const identity = identityOf({ signal_ref: ref } as Offer['listing'], agentUrl) as Identity
  const { domain, policy, definition, verdictOn } = sayingOf(identity, view)
  const handle = handleOf(identity)
  const offer = { upstream, agentUrl, mode, verdict: verdictOn(agentUrl), members, ref, handle }
  const signal = spliceSignal(identity, offer, policy, definition)
  return signal && { domain, signal }
}

function merged(slices: readonly IndexedSlice[], places: readonly OfferPlace[], view: View) {
  const found = places.map(({ slice, row }) => {
    const from = (slices[slice] as IndexedSlice).slice
    return { slice: from, listing: sliceListing(from, row), bytes: from.rows.length[row] as number }
  })
  const first = found[0] as (typeof found)[number]
  const identity = identityOf(first.listing, first.slice.agentUrl) as Identity // rows without one have no key
  const { domain, policy, definition, verdictOn } = sayingOf(identity, view)
  const offers = found.map(
    ({ listing, bytes, slice: { upstream, agentUrl, mode } }): Offer => ({
      ...{ upstream, agentUrl, mode, listing, bytes },
      verdict: verdictOn(agentUrl),
    }),
  )
  return { domain, signal: mergeSignal(identity, offers, policy, definition) }
}

/** Whether a slice has kept its place, and all its rows theirs. */
function isStill(move: Move | undefined, at: number): boolean {
  return move?.to === at && (move.moved?.every((to, row) => to === row) ?? true)
}

const hashedHandle: HandleOf = (identity) => signalHandle(identityKey(identity))

const inUpstreamOrder = (a: OfferPlace, b: OfferPlace) => a.slice - b.slice || a.row - b.row

/** The published entries: those with a row. */
function shownOf({ length }: Rows, previous: Snapshot | undefined): Uint32Array {
  const before = previous?.rows.length
  if (previous && before && (before === length || sameVisibility(before, length))) return previous.shown
  const shown = createColumn(u32, length.length)
  for (let entry = 0; entry < length.length; entry += 1) if (length[entry] !== 0) shown.push(entry)
  return shown.finish()
}

function sameVisibility(a: Uint32Array, b: Uint32Array): boolean {
  if (a.length !== b.length) return false
  for (let entry = 0; entry < a.length; entry += 1) if ((a[entry] === 0) !== (b[entry] === 0)) return false
  return true
}

const EMPTY = createDraft(0, []).finish()

/** Builds it in portions, for work on the serving thread. */
export function* buildingSnapshot({
  previous,
  slices: given,
  judge,
  only,
}: BuildInput): InPortions<Snapshot> {
  const meter = createMeter()
  const { slices, moves, fresh } = yield* indexSlices(given, previous?.slices ?? [], meter, only)
  const views = createProviderViews(judge)
  const stale = previous?.facts.domains.map(
    (domain) => domain !== '' && views.view(domain).stamp !== previous.stamps.get(domain),
  )
  if (
    previous &&
    !stale?.includes(true) &&
    fresh.row.length === 0 &&
    moves.every(isStill) &&
    moves.length === slices.length
  ) {
    return { ...previous, slices, stamps: views.stamps(), memory: NO_MEMORY } // nothing changed, so the columns are reused
  }
  const before = previous?.count ?? 0
  const touched = new Uint8Array(before) // entries to be merged again
  const carried = previous && carryOffers(previous, moves, touched)
  if (previous && stale?.includes(true)) {
    const { domain } = previous.facts
    for (let entry = 0; entry < before; entry += 1) if (stale[domain[entry] as number]) touched[entry] = 1
  }
  const patch = createDraft(fresh.row.length, slices)
  const finders = slices.map(({ slice }) => createRowFinder(slice.rows))
  const buckets = new Set<number>()
  const runs: Run[] = []
  let near = 0 // rows of `fresh` that were touched
  let merges = 0
  let inRun = 0 // of these, the first that no run covers
  let kept = 0 // entries of the previous snapshot that the runs already cover

  /**
   * In key order rows lie all over memory. A processor that is asked for many places at once waits for all of them about as
   * long as for one.
   */
  function bringNear(row: number): void {
    if (row < near) return
    near = Math.min(row + AHEAD, fresh.row.length)
    for (let next = row; next < near; next += 1) {
      finders[fresh.slice[next] as number]?.touch(fresh.row[next] as number)
    }
  }

  /** Consecutive rows of `fresh`, from `at` on, that have the same key. */
  function freshOffers(at: number): OfferPlace[] {
    const offers: OfferPlace[] = []
    for (let next = at; next < fresh.row.length; next += 1) {
      if (compareKeys(fresh.keys, next, fresh.keys, at) !== 0) break
      offers.push({ slice: fresh.slice[next] as number, row: fresh.row[next] as number })
    }
    return offers
  }

  function mergedOf(offers: OfferPlace[], handleOf: HandleOf) {
    if (offers.length > 1) offers.sort(inUpstreamOrder)
    else {
      const { slice, row } = offers[0] as OfferPlace
      const finder = finders[slice] as RowFinder
      const quick = spliced((slices[slice] as IndexedSlice).slice, finder, row, views.view, handleOf)
      if (quick) return quick
    }
    return merged(slices, offers, views.view)
  }

  /** Consecutive signals that were merged form one run. */
  function endRun(): void {
    if (merges > inRun) runs.push({ patch: true, start: inRun, end: merges })
    inRun = merges
  }

  function keepUntil(entry: number): void {
    if (entry > kept) {
      endRun()
      runs.push({ patch: false, start: kept, end: entry })
    }
    kept = entry
  }

  /** `handleOf`: the handle of the signal whose key this is. */
  function put(keys: Uint32Array, at: number, offers: OfferPlace[], handleOf: HandleOf): void {
    buckets.add(bucketOf(keys, at))
    if (offers.length === 0) return
    const { domain, signal } = mergedOf(offers, handleOf)
    if (signal.kind === 'signal') patch.add(keys, at, domain, offers, signal)
    else patch.withhold(keys, at, domain, offers)
    for (const { slice, row } of offers) {
      meter.did(rowUnits((slices[slice] as IndexedSlice).slice.rows.length[row] as number))
    }
    merges += 1
  }

  /** The first touched entry from `kept` on, below `end`; -1 when there is none. */
  function nextTouched(end: number): number {
    const entry = touched.indexOf(1, kept)
    return entry < end ? entry : -1
  }

  /** Merges the touched entries from `kept` up to (excluding) `end` again. */
  function* mergeTouched(end: number): InPortions<void> {
    if (!previous || !carried) return
    for (let entry = nextTouched(end); entry >= 0; entry = nextTouched(end)) {
      keepUntil(entry)
      put(previous.keys, entry, carried.of(entry), hashedHandle)
      kept = entry + 1
      if (meter.isDue()) yield
    }
  }

  for (let row = 0; row < fresh.row.length; ) {
    bringNear(row)
    const entry = previous ? countBelow(previous.keys, before, keyAt(fresh.keys, row)) : 0
    if (nextTouched(entry) >= 0) yield* mergeTouched(entry)
    keepUntil(entry)
    const isThere = previous && entry < before && compareKeys(previous.keys, entry, fresh.keys, row) === 0
    const offers = freshOffers(row)
    const all = isThere && carried ? [...carried.of(entry), ...offers] : offers
    put(fresh.keys, row, all, () => keyHandle(fresh.keys, row, fresh.rest[row] as number))
    row += offers.length
    if (isThere) kept = entry + 1
    if (meter.isDue()) yield
  }
  yield* mergeTouched(before)
  keepUntil(before)
  endRun()
  releaseMembers(members)

  const weave = weaveOf(runs, before)
  const base = previous ?? EMPTY
  const columns = joined(base, carried?.offers ?? EMPTY.offers, patch.finish(), weave)
  yield
  const { tree, structure, pricing, id } = hashTree(columns, previous?.tree, buckets)
  const shown = shownOf(columns.rows, previous)
  const made = { id, ...columns, shown, tree, structure, pricing, slices, stamps: views.stamps() }
  return { ...made, memory: memoryOf(made, previous) }
}

/** The snapshot whose halves these are: what one build of both makes, but for where rows lie. */
export function joinedHalves(first: Snapshot, second: Snapshot): Snapshot {
  const runs: Run[] = [
    { patch: false, start: 0, end: first.count },
    { patch: true, start: 0, end: second.count },
  ]
  const columns = joined(first, first.offers, second, weaveOf(runs, first.count))
  const both = (of: keyof Snapshot['tree']) =>
    mapped(u8, first.tree[of], (byte, at) => byte | (second.tree[of][at] as number)) // the halves share no bucket
  const tree = { structure: both('structure'), pricing: both('pricing'), unseen: both('unseen') }
  const hashed = hashTree(columns, tree, new Set())
  const stamps = new Map([...first.stamps, ...second.stamps])
  const made = {
    ...columns,
    ...hashed,
    shown: shownOf(columns.rows, undefined),
    slices: first.slices,
    stamps,
  }
  return { ...made, memory: memoryOf(made, undefined) }
}

/** Builds it at once, for threads that serve nobody. */
export const buildSnapshot = (input: BuildInput): Snapshot => drained(buildingSnapshot(input))
