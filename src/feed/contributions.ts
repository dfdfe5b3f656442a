/** What each upstream gave to a snapshot and what of it is not shown, with the reason: for the start table and explain. */
import type { Verdict } from '../authz/verdict.js'
import { identityOf } from '../merge/identity.js'
import type { Judge } from '../snapshot/judge.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { sliceListing } from '../upstreams/rows/slice.js'

const LOOKED_AT = 1_000 // withheld listings that are read again for their reason, an upstream; the rest is only counted

export type Contribution = {
  upstream: string
  /** Listings that stand in a published signal. */
  published: number
  withheld: number
  /** Of the withheld listings that were looked at: how many for which verdict, or which rule of merging. */
  reasons: ReadonlyMap<string, number>
  /** The difference that a near miss makes, for people (authz/hint.ts). */
  hint?: string
}

/** A withheld listing that is authorized has no country left: merging takes nothing else away (merge/signal.ts). */
function wordOf(verdict: Verdict): string {
  return 'reason' in verdict ? verdict.reason : 'no_country_left'
}

/** One entry for each slice of the snapshot, in its order. */
export function contributions(snapshot: Snapshot, judge: Judge): Contribution[] {
  const published = snapshot.slices.map(() => 0)
  const withheld: number[][] = snapshot.slices.map(() => [])
  const { slice, row, stands } = snapshot.offers
  for (let offer = 0; offer < slice.length; offer += 1) {
    const at = slice[offer] as number
    if (stands[offer]) published[at] = (published[at] as number) + 1
    else (withheld[at] as number[]).push(row[offer] as number)
  }
  return snapshot.slices.map(({ slice: from }, at) => {
    const rows = withheld[at] as number[]
    const reasons = new Map<string, number>()
    let hint: string | undefined
    for (const each of rows.slice(0, LOOKED_AT)) {
      const listing = sliceListing(from, each)
      const identity = identityOf(listing, from.agentUrl)
      if (identity?.kind !== 'provider') continue
      const verdict = judge(identity.domain).decide(identity.id, from.agentUrl)
      if (verdict.outcome === 'unauthorized') hint ??= verdict.hint
      const word = wordOf(verdict)
      reasons.set(word, (reasons.get(word) ?? 0) + 1)
    }
    const told = {
      upstream: from.upstream,
      published: published[at] as number,
      withheld: rows.length,
      reasons,
    }
    return hint ? { ...told, hint } : told
  })
}
