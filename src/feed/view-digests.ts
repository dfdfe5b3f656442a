/** The hashes of what a view shows: of its rows, where whole rows are shown, else of their shown parts. */
import { WORDS } from '../merge/keys.js'
import { type InPortions, type Meter, PORTION } from '../process/portions.js'
import { createDigest } from '../snapshot/digests.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { DEPLOYMENTS_A_UNIT, destinationTest, shownDeployments } from './filters.js'
import type { Narrowing } from './narrowing.js'
import type { Criteria } from './query.js'

const BATCH = 256 // entries that are hashed before the time is looked at

/** Digests of the shown parts of the rows. */
export type ViewDigests = { readonly structure: string; readonly pricing: string }

/** Copies a value of a column. Unrolled, because all that a view costs beyond its tests goes through here. */
function copyWords(from: ArrayLike<number>, at: number, to: Uint32Array, place: number): void {
  const first = at * WORDS
  to[place] = from[first] as number
  to[place + 1] = from[first + 1] as number
  to[place + 2] = from[first + 2] as number
  to[place + 3] = from[first + 3] as number
}

/** Hashes of values from columns, concatenated; `signals` is a guess of how many there are. */
function createWordDigest(signals: number) {
  const gathered = new Uint32Array(Math.min(signals, PORTION) * WORDS)
  const digest = createDigest()
  let length = 0
  const hashGathered = () => {
    digest.update(gathered.subarray(0, length))
    length = 0
  }
  return {
    push(column: ArrayLike<number>, at = 0): void {
      copyWords(column, at, gathered, length)
      length += WORDS
      if (length === gathered.length) hashGathered()
    },
    text(): string {
      hashGathered()
      return digest.text()
    },
  }
}

/** The digest of a column's values for the entries. */
export function* columnDigest(column: Uint32Array, entries: Uint32Array, meter: Meter): InPortions<string> {
  const digest = createWordDigest(entries.length)
  for (let from = 0; from < entries.length; from += BATCH) {
    const until = Math.min(from + BATCH, entries.length)
    for (let at = from; at < until; at += 1) digest.push(column, entries[at])
    meter.did(until - from)
    if (meter.isDue()) yield
  }
  return digest.text()
}

/** Digests of rows of which a tuple shows a part: deployments and offers that are not shown are left out. */
export function* partDigests(
  snapshot: Snapshot,
  entries: Uint32Array,
  criteria: Criteria,
  narrowing: Narrowing,
  meter: Meter,
): InPortions<ViewDigests> {
  const { digests, deployments } = snapshot
  const { at, destination, words } = deployments
  const isWanted = criteria.destinations && destinationTest(snapshot, criteria.destinations)
  const structure = createWordDigest(entries.length)
  const pricing = createWordDigest(entries.length)
  for (const entry of entries) {
    const narrowed = narrowing.factsOf(entry)
    const end = at[entry + 1] as number
    meter.did(1 + (end - (at[entry] as number)) / DEPLOYMENTS_A_UNIT)
    if (meter.isDue()) yield
    if (narrowed) {
      structure.push(narrowed.core)
      for (const one of shownDeployments(narrowed, criteria.destinations)) structure.push(one.words)
      pricing.push(narrowed.pricing)
      continue
    }
    structure.push(digests.core, entry)
    for (let one = at[entry] as number; one < end; one += 1) {
      if (!isWanted || isWanted(destination[one] as number, meter)) structure.push(words, one)
    }
    pricing.push(digests.pricing, entry)
  }
  return { structure: structure.text(), pricing: pricing.text() }
}
