/** What each upstream gave to a snapshot and what of it is not shown, with the reason: for the start table and explain. */
import { SIGNAL_TYPES, type SignalType } from '../adcp/signal.js'
import { type Policy, publishable, type Verdict } from '../authz/rules/verdict.js'
import { countriesOf } from '../merge/definition.js'
import { identityOf } from '../merge/identity.js'
import type { Judge } from '../merge/judge.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { createMeter, type InPortions } from '../threads/portions.js'
import { sliceListing } from '../upstreams/rows/slice.js'

const UNITS_A_ROW = 100 // a row that is parsed and judged costs as much as looking at so many signals
const LOOKED_AT = 1_000 // withheld listings per upstream whose reason is determined; the others are only counted

export type Contribution = {
  upstream: string
  /** Listings that are part of a published signal. */
  published: number
  withheld: number
  /** Of the withheld listings that were looked at: how many for which verdict, or which rule of merging. */
  reasons: ReadonlyMap<string, number>
  /** The difference that a near miss makes, for people (authz/rules/hint.ts). */
  hint?: string
}

/**
 * An admitted offer that is not published is displaced by an authorized offer, may be used in no country, or is too large
 * next to the others: merging drops offers for no other reason (merge/merged-signal.ts).
 */
function wordOf(verdict: Verdict, policy: Policy, isBesideOther: boolean, hasCountry: () => boolean): string {
  const isEntitled = publishable(verdict, 'strict')
  if ('reason' in verdict && !publishable(verdict, policy)) return verdict.reason
  if (!isBesideOther) return 'no_country_left'
  if (!isEntitled) return 'outranked'
  return hasCountry() ? 'no_room' : 'no_country_left'
}

type WithheldRow = {
  row: number
  /** Another offer of the same signal stands. */
  isBesideOther: boolean
}

/** One entry for each slice of the snapshot, in its order. */
export function* contributions(snapshot: Snapshot, judge: Judge): InPortions<Contribution[]> {
  const meter = createMeter()
  const published = snapshot.slices.map(() => 0)
  const counts = snapshot.slices.map(() => 0)
  const withheld: WithheldRow[][] = snapshot.slices.map(() => [])
  const { at: entries, slice, row, stands } = snapshot.offers
  for (let entry = 0; entry < snapshot.count; entry += 1) {
    const [first, end] = [entries[entry] as number, entries[entry + 1] as number]
    meter.did(1 + end - first)
    if (meter.isDue()) yield
    let isBesideOther = false
    for (let offer = first; offer < end; offer += 1) if (stands[offer]) isBesideOther = true
    for (let offer = first; offer < end; offer += 1) {
      const at = slice[offer] as number
      if (stands[offer]) published[at] = (published[at] as number) + 1
      else {
        counts[at] = (counts[at] as number) + 1
        const looked = withheld[at] as WithheldRow[]
        if (looked.length < LOOKED_AT) looked.push({ row: row[offer] as number, isBesideOther })
      }
    }
  }
  const told: Contribution[] = []
  for (const [at, { slice: from }] of snapshot.slices.entries()) {
    const reasons = new Map<string, number>()
    let hint: string | undefined
    for (const { row: each, isBesideOther } of withheld[at] as WithheldRow[]) {
      meter.did(UNITS_A_ROW)
      if (meter.isDue()) yield
      const listing = sliceListing(from, each)
      const identity = identityOf(listing, from.agentUrl)
      if (identity?.kind !== 'provider') continue
      const { decide, definition, policy } = judge(identity.domain)
      const verdict = decide(identity.id, from.agentUrl)
      if (verdict.outcome === 'unauthorized') hint ??= verdict.hint
      const hasCountry = () =>
        countriesOf({ ...from, listing, verdict }, definition(identity.id))?.length !== 0
      const word = wordOf(verdict, policy, isBesideOther, hasCountry)
      reasons.set(word, (reasons.get(word) ?? 0) + 1)
    }
    told.push({
      upstream: from.upstream,
      published: published[at] as number,
      withheld: counts[at] as number,
      reasons,
      ...(hint && { hint }),
    })
  }
  return told
}

/** What kinds of signals a snapshot shows: for get_adcp_capabilities. Withheld signals do not count. */
type Inventory = {
  /** Sorted, as far as they are few. */
  providerDomains: readonly string[]
  types: ReadonlySet<SignalType>
}

const MOST_SORTED = 10_000 // more domains than an answer could name: sorting them would take longer than telling

const counted = new WeakMap<Snapshot, Inventory>()

/** Counted once for each snapshot. */
export function inventoryOf(snapshot: Snapshot): Inventory {
  const known = counted.get(snapshot)
  if (known) return known
  const { domain, domains, type } = snapshot.facts
  const seen = { domains: new Uint8Array(domains.length), types: new Uint8Array(SIGNAL_TYPES.length) }
  for (const entry of snapshot.shown) {
    seen.domains[domain[entry] as number] = 1
    seen.types[type[entry] as number] = 1
  }
  const shown = domains.filter((name, at) => name !== '' && seen.domains[at])
  const inventory = {
    providerDomains: shown.length > MOST_SORTED ? shown : shown.sort(),
    types: new Set(SIGNAL_TYPES.filter((_, at) => seen.types[at])),
  }
  counted.set(snapshot, inventory)
  return inventory
}

/** Offers that stand in a published signal, by upstream. */
export function* publishedByUpstream({ offers, shown, slices }: Snapshot): InPortions<Map<string, number>> {
  const meter = createMeter()
  const counts = new Uint32Array(slices.length)
  for (const entry of shown) {
    meter.did(1)
    if (meter.isDue()) yield
    for (let one = offers.at[entry] as number; one < (offers.at[entry + 1] as number); one += 1) {
      const from = offers.slice[one] as number
      if (offers.stands[one]) counts[from] = (counts[from] as number) + 1
    }
  }
  return new Map(slices.map(({ slice }, at) => [slice.upstream, counts[at] as number]))
}
