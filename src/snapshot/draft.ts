/** The signals that one build merged, in key order, as the columns of a snapshot of them alone. */
import { SIGNAL_TYPES, VALUE_TYPES } from '../adcp/signal.js'
import { type KeySpan, keySpans } from '../merge/deployments.js'
import { WORDS } from '../merge/keys.js'
import type { MergedSignal } from '../merge/merged-signal.js'
import { NO_CURRENCY, placesIn, type Row } from '../merge/row.js'
import { remembered } from '../process/remembered.js'
import { createChunks } from '../upstreams/rows/slab.js'
import { createGrowing, type Extent, type Growing, type WRITTEN } from './columns.js'
import { digestWords, keyWords, type RowWords, rowWords, type Words } from './digests.js'
import { type IndexedSlice, keptListing, type OfferPlace, type Snapshot } from './snapshot.js'

/** Of the first chunk that a build writes rows to: a small build uses little memory. */
export const FIRST_CHUNK_BYTES = 64 * 1024

const NO_DIGEST = [0, 0, 0, 0]
const NO_SPAN: KeySpan = { listing: 0, start: 0, bytes: 0 }

/** All columns except those that are derived from others. */
export type Columns = Pick<Snapshot, 'count' | keyof typeof WRITTEN>

/** Filters compare providers without regard to case and to the space around them. */
const providerWord = remembered((provider) => provider.trim().toLowerCase())

/** Writes one hash into a column: the one at place `at` of `from`. By a loop: for four numbers the engine's own copy costs more. */
function putWords(column: Uint32Array, place: number, from: ArrayLike<number>, at = 0): void {
  for (let word = 0; word < WORDS; word += 1) column[place * WORDS + word] = from[at * WORDS + word] as number
}

const BRACE = 0x7d
const COMMA = 0x2c

/** The new rows of a snapshot, written one after the other into shared memory. */
function createRowDraft() {
  const chunks = createChunks(FIRST_CHUNK_BYTES)

  /**
   * A new row, written directly to its final place; the columns say where that is. Gives the digest of its core, which stands
   * there on the way.
   */
  function add(row: Row, columns: Growing['rows'], entry: number): Words {
    const { opening, placed, unplaced, tail } = row
    const rest = Math.max(unplaced.length, placed.length + tail.length + 2)
    const { buffer, chunk, start: from } = chunks.room((opening.length + rest) * 3) // UTF-8 takes at most three bytes a code unit
    const openingEnd = from + buffer.write(opening, from)
    const core = digestWords(buffer.subarray(from, openingEnd + buffer.write(unplaced, openingEnd)))
    const headEnd = openingEnd + buffer.write(placed, openingEnd)
    const tailEnd = headEnd + buffer.write(tail, headEnd)
    buffer[tailEnd] = BRACE
    buffer[tailEnd + 1] = COMMA
    chunks.take(tailEnd + 2 - from)
    const places = placesIn(row, openingEnd - from)
    columns.chunkOf[entry] = chunk
    columns.start[entry] = from
    columns.head[entry] = headEnd - from
    columns.length[entry] = tailEnd + 1 - from
    columns.fields[entry] = places.fields
    columns.deployments[entry] = places.deployments
    return core
  }

  return { add, chunks: chunks.finish }
}

/** `expected`: a guess of how many signals there will be; `slices`: those of the new snapshot. */
export function createDraft(expected: number, slices: readonly IndexedSlice[]) {
  const growing = createGrowing(expected)
  const rows = createRowDraft()
  const end: Extent = { entry: 0, deployments: 0, offers: 0 }
  let lastBound: readonly string[] | undefined
  let lastSet = 0

  /** The number of a set of countries: nearly always that of the offer is that of its signal. */
  function setOf(countries: readonly string[] | undefined, { countrySets }: Growing['facts']): number {
    if (countries !== lastBound) {
      lastSet = countrySets.id(countries?.join() ?? '')
      lastBound = countries
    }
    return lastSet
  }

  /** Begins an entry with so many deployments and offers, and gives the columns, which have room for it. */
  function next(deployments: number, offers: number): Growing {
    end.entry += 1
    end.deployments += deployments
    end.offers += offers
    const to = growing.roomFor(end)
    to.deployments.at[end.entry] = end.deployments
    to.offers.at[end.entry] = end.offers
    return to
  }

  function putFacts({ facts }: Growing, entry: number, domainName: string, signal?: MergedSignal): void {
    facts.type[entry] = signal ? SIGNAL_TYPES.indexOf(signal.type) : 0
    facts.valueType[entry] = signal?.valueType === undefined ? 0 : VALUE_TYPES.indexOf(signal.valueType) + 1
    facts.provider[entry] = facts.providers.id(
      signal?.provider === undefined ? '' : providerWord(signal.provider),
    )
    facts.domain[entry] = facts.domains.id(domainName)
    facts.countries[entry] = setOf(signal?.countries, facts)
    facts.mixed[entry] = signal?.mixed ? 1 : 0
    facts.anywhere[entry] = signal?.anywhere ? 1 : 0
    facts.coverage[entry] = signal?.coverage ?? Number.NaN
    facts.cpm[entry] = signal?.lowestCpm ?? Number.NaN
    facts.percent[entry] = signal?.lowestPercent ?? Number.NaN
    facts.currency[entry] = signal?.cpmCurrency ?? NO_CURRENCY
  }

  function putOffers(
    { facts, offers }: Growing,
    entry: number,
    places: readonly OfferPlace[],
    signal?: MergedSignal,
  ): void {
    const first = offers.at[entry] as number
    for (let order = 0; order < places.length; order += 1) {
      const { slice, row } = places[order] as OfferPlace
      offers.slice[first + order] = slice
      offers.row[first + order] = row
      offers.stands[first + order] = signal?.contributes[order] ? 1 : 0
      offers.countries[first + order] = setOf(signal?.bounds[order], facts)
    }
  }

  function putDeployments(
    { deployments }: Growing,
    entry: number,
    signal: MergedSignal,
    words: RowWords,
    places: readonly OfferPlace[],
  ): void {
    const from = deployments.at[entry] as number
    const spans = keySpans(signal.deployments, () => places.map((place) => keptListing(slices, place)))
    signal.deployments.forEach(({ key, activationKey }, order) => {
      const { listing, start, bytes } = spans[order] ?? NO_SPAN
      const [first, second] = keyWords(activationKey)
      const at = from + order
      deployments.destination[at] = deployments.destinations.id(key)
      putWords(deployments.words, at, words.deployments[order] ?? NO_DIGEST)
      deployments.key[at * 2] = first
      deployments.key[at * 2 + 1] = second
      deployments.keyOffer[at] = listing
      deployments.keyStart[at] = start
      deployments.keyBytes[at] = bytes
    })
  }

  /** Adds a merged signal. `domainName` is empty for signals that no provider publishes. */
  function add(
    key: ArrayLike<number>,
    at: number,
    domainName: string,
    places: readonly OfferPlace[],
    signal: MergedSignal,
  ) {
    const { entry } = end
    const to = next(signal.deployments.length, places.length)
    const words = rowWords(signal, rows.add(signal, to.rows, entry))
    putWords(to.keys, entry, key, at)
    putWords(to.digests.structure, entry, words.structure)
    putWords(to.digests.core, entry, words.core)
    putWords(to.digests.pricing, entry, words.pricing)
    putFacts(to, entry, domainName, signal)
    putDeployments(to, entry, signal, words, places)
    putOffers(to, entry, places, signal)
  }

  /** Adds a withheld signal: it has offers, and no row, whose columns stay zero. */
  function withhold(key: ArrayLike<number>, at: number, domainName: string, places: readonly OfferPlace[]) {
    const { entry } = end
    const to = next(0, places.length)
    putWords(to.keys, entry, key, at)
    putFacts(to, entry, domainName)
    putOffers(to, entry, places)
  }

  function finish(): Columns {
    const columns = growing.finish(end)
    return { ...columns, count: end.entry, rows: { ...columns.rows, chunks: rows.chunks() } }
  }

  return { add, withhold, finish }
}
