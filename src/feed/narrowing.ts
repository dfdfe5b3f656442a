/**
 * The signals of a snapshot whose row differs for a reader who names countries: those with an offer that may be used in
 * none of them (`offers.countries`). Their rows are merged again from the offers that are left; all others are shown as
 * they stand, at no cost.
 */
import { LRUCache } from 'lru-cache'
import { narrowRow, type PublishedRow } from '../merge/narrow.js'
import type { Row } from '../merge/row.js'
import { WORDS } from '../snapshot/keys.js'
import { keyWords, rowWords, type Words } from '../snapshot/row-words.js'
import { type IndexedSlice, rowAt, type Snapshot, standingListings } from '../snapshot/snapshot.js'

/** Of a narrowed row what columns keep of the others: all that filters and versions ask. */
export type NarrowedFacts = Pick<
  Row,
  'coverage' | 'lowestCpm' | 'lowestPercent' | 'cpmCurrency' | 'anywhere'
> & {
  core: Words
  pricing: Words
  deployments: readonly { key: string; words: Words; secret: Words }[]
}

export type Narrowing = {
  /** Whether the signal is shown otherwise than it stands. */
  narrows(entry: number): boolean
  /** The row of such a signal; undefined for what is shown as it stands. */
  rowOf(entry: number): Row | undefined
  factsOf(entry: number): NarrowedFacts | undefined
  /** After a portion of work that others may have waited for; then a new portion begins. */
  isDue(): boolean
}

const PORTION = 32 // rows merged: some three milliseconds

/**
 * By what a narrowed row is made from: merging it takes twenty times as long as finding it, many sets of countries leave
 * the same offers, and from one snapshot to the next few change.
 */
const known = new LRUCache<string, NarrowedFacts>({ max: 100_000 })

const NOTHING: Narrowing = {
  narrows: () => false,
  rowOf: () => undefined,
  factsOf: () => undefined,
  isDue: () => false,
}

function factsIn(row: Row): NarrowedFacts {
  const { coverage, lowestCpm, lowestPercent, cpmCurrency, anywhere } = row
  const { core, pricing, deployments: words } = rowWords(row)
  const deployments = row.deployments.map(({ key, activationKey }, order) => ({
    key,
    words: words[order] as Words,
    secret: keyWords(activationKey),
  }))
  return { coverage, lowestCpm, lowestPercent, cpmCurrency, anywhere, core, pricing, deployments }
}

/** Each request asks several times, and the same countries are asked for again and again. */
const flagsOf = new WeakMap<Snapshot, LRUCache<string, Uint8Array>>()

/** One flag for each set of countries: whether it allows one of the asked. No set: no bound. */
export function countryFlags(snapshot: Snapshot, asked: readonly string[]): Uint8Array {
  const made = flagsOf.get(snapshot) ?? new LRUCache<string, Uint8Array>({ max: 256 })
  flagsOf.set(snapshot, made)
  const key = asked.join()
  const flags =
    made.get(key) ??
    Uint8Array.from(snapshot.facts.countrySets, (set) =>
      set === '' || set.split(',').some((country) => asked.includes(country)) ? 1 : 0,
    )
  made.set(key, flags)
  return flags
}

export function createNarrowing(snapshot: Snapshot, countries: readonly string[] | undefined): Narrowing {
  if (!countries) return NOTHING
  const { facts, offers, slices, digests } = snapshot
  const { at, stands, countries: bound } = offers
  const allowed = countryFlags(snapshot, countries)
  let merged = 0

  const isLeft = (offer: number) => allowed[bound[offer] as number] === 1

  function narrows(entry: number): boolean {
    if (!facts.mixed[entry]) return false
    for (let offer = at[entry] as number; offer < (at[entry + 1] as number); offer += 1) {
      if (stands[offer] && !isLeft(offer)) return true
    }
    return false
  }

  function rowOf(entry: number): Row | undefined {
    if (!narrows(entry)) return undefined
    const row = rowAt(snapshot, entry) as PublishedRow
    return narrowRow(row, standingListings(snapshot, entry), countries as readonly string[])
  }

  /** Equal for equal published rows of which the same offers are left, with equal listings. */
  function originOf(entry: number): string {
    let origin = digests.structure.subarray(entry * WORDS, (entry + 1) * WORDS).join()
    for (let offer = at[entry] as number; offer < (at[entry + 1] as number); offer += 1) {
      if (!stands[offer]) continue
      const { slice } = slices[offers.slice[offer] as number] as IndexedSlice
      origin += isLeft(offer) ? ` ${slice.digests[offers.row[offer] as number]}` : ' -'
    }
    return origin
  }

  function factsOf(entry: number): NarrowedFacts | undefined {
    if (!narrows(entry)) return undefined
    const origin = originOf(entry)
    const found = known.get(origin)
    if (found) return found
    merged += 1
    const row = rowOf(entry)
    const made = row && factsIn(row)
    if (made) known.set(origin, made)
    return made
  }

  function isDue(): boolean {
    if (merged < PORTION) return false
    merged = 0
    return true
  }

  return { narrows, rowOf, factsOf, isDue }
}
