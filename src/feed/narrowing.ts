/**
 * The signals of a snapshot whose row differs for a reader who names countries: those with offers that may be used in
 * some of them only (`facts.mixed`). Their rows are merged again from the standing listings; all others are shown as
 * they stand, at no cost.
 */
import { LRUCache } from 'lru-cache'
import { narrowRow, type PublishedRow } from '../merge/narrow.js'
import type { Row } from '../merge/row.js'
import { digestText } from './digest.js'
import { WORDS } from './keys.js'
import { keyWords, rowWords, type Words } from './row-words.js'
import { rowAt, type Snapshot, standingListings } from './snapshot.js'

/** Of a narrowed row what columns keep of the others: all that filters and versions ask. */
export type NarrowedFacts = Pick<Row, 'coverage' | 'lowestCpm' | 'lowestPercent'> & {
  core: Words
  pricing: Words
  deployments: readonly { key: string; words: Words; secret: Words }[]
}

export type Narrowing = {
  /** The row of a mixed signal; undefined for what is shown as it stands. */
  rowOf(entry: number): Row | undefined
  factsOf(entry: number): NarrowedFacts | undefined
}

/**
 * By what a narrowed row is made from: merging it takes twenty times as long as finding it, and from one snapshot to the
 * next few change.
 */
const known = new LRUCache<string, NarrowedFacts>({ max: 100_000 })

const NOTHING: Narrowing = { rowOf: () => undefined, factsOf: () => undefined }

function factsIn(row: Row): NarrowedFacts {
  const { coverage, lowestCpm, lowestPercent } = row
  const { core, pricing, deployments: words } = rowWords(row)
  const deployments = row.deployments.map(({ key, activationKey }, order) => ({
    key,
    words: words[order] as Words,
    secret: keyWords(activationKey),
  }))
  return { coverage, lowestCpm, lowestPercent, core, pricing, deployments }
}

/** Equal for equal published rows over equal listings. */
function originOf({ digests, offers, slices }: Snapshot, entry: number): string {
  let origin = digests.structure.subarray(entry * WORDS, (entry + 1) * WORDS).join()
  for (let offer = offers.at[entry] as number; offer < (offers.at[entry + 1] as number); offer += 1) {
    const from = slices[offers.slice[offer] as number]
    if (offers.stands[offer]) origin += ` ${from?.slice.digests[offers.row[offer] as number]}`
  }
  return origin
}

export function createNarrowing(snapshot: Snapshot, countries: readonly string[] | undefined): Narrowing {
  if (!countries) return NOTHING
  const asked = digestText(countries.join())

  function rowOf(entry: number): Row | undefined {
    if (!snapshot.facts.mixed[entry]) return undefined
    const row = rowAt(snapshot, entry) as PublishedRow
    return narrowRow(row, standingListings(snapshot, entry), countries as readonly string[])
  }

  function factsOf(entry: number): NarrowedFacts | undefined {
    if (!snapshot.facts.mixed[entry]) return undefined
    const origin = `${asked} ${originOf(snapshot, entry)}`
    const found = known.get(origin)
    if (found) return found
    const row = rowOf(entry)
    const facts = row && factsIn(row)
    if (facts) known.set(origin, facts)
    return facts
  }

  return { rowOf, factsOf }
}
