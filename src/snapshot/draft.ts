/** The signals that one build merged, in key order, as the columns of a snapshot of them alone. */
import { SIGNAL_TYPES, VALUE_TYPES } from '../adcp/signal.js'
import { type KeySpan, keySpans } from '../merge/deployments.js'
import type { MergedSignal } from '../merge/merged-signal.js'
import { NO_CURRENCY, placesIn, type Row, type RowPlaces } from '../merge/row.js'
import { type Column, createColumn, type Maker } from '../process/column.js'
import { remembered } from '../process/remembered.js'
import { createChunks } from '../upstreams/rows/slab.js'
import { createWords, filled, type Spec, valueAt, type WordList, WRITTEN } from './columns.js'
import { digestWords, keyWords, type RowWords, rowWords, type Words } from './digests.js'
import { WORDS } from './keys.js'
import { type IndexedSlice, keptListing, type OfferPlace, type Snapshot } from './snapshot.js'

/** Of the first chunk that a build writes rows to: a small build uses little memory. */
export const FIRST_CHUNK_BYTES = 64 * 1024

const NO_DIGEST = [0, 0, 0, 0]
const NO_SPAN: KeySpan = { listing: 0, start: 0, bytes: 0 }

/** All columns except those that are derived from others. */
export type Columns = Pick<Snapshot, 'count' | keyof typeof WRITTEN>

type WordWriter = ReturnType<typeof createWords>
type WriterOf<S> = S extends { make: Maker<infer T> }
  ? Column<T>
  : S extends WordList
    ? WordWriter
    : WritersOf<S>
type WritersOf<T> = { readonly [Name in keyof T]: WriterOf<T[Name]> }
/** The appenders of each column and list. */
type Writers = WritersOf<typeof WRITTEN>

/** `expected` is a guess of how many entries there will be. */
function writerOf(spec: Spec, expected: number): WordWriter | Column<Uint32Array> | Column<never> {
  if (spec.kind === 'list') return createWords(spec.fixed === 0 ? [] : [''])
  if (spec.kind === 'values') return createColumn(spec.make as Maker<never>, expected * spec.width)
  const starts = createColumn(spec.make as Maker<Uint32Array>, expected + 1)
  starts.push(0)
  return starts
}

/** Filters compare providers without regard to case and to the space around them. */
const providerWord = remembered((provider) => provider.trim().toLowerCase())

/** Appends one hash to a column: the one at place `at` of `from`. */
function pushWords(column: Column<Uint32Array>, from: ArrayLike<number>, at = 0): void {
  column.pushAll(from, at * WORDS, WORDS)
}

const BRACE = 0x7d
const COMMA = 0x2c

/** The new rows of a snapshot, written one after the other into shared memory. */
function createRowDraft({ chunkOf, start, head, length, fields, deployments }: Writers['rows']) {
  const chunks = createChunks(FIRST_CHUNK_BYTES)

  function push(chunk: number, from: number, headBytes: number, bytes: number, places: RowPlaces): void {
    chunkOf.push(chunk)
    start.push(from)
    head.push(headBytes)
    length.push(bytes)
    fields.push(places.fields)
    deployments.push(places.deployments)
  }

  /** A new row, written directly to its final place. Gives the digest of its core, which stands there on the way. */
  function add(row: Row): Words {
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
    push(chunk, from, headEnd - from, tailEnd + 1 - from, placesIn(row, openingEnd - from))
    return core
  }

  /** An entry without a row. */
  function none(): void {
    push(0, 0, 0, 0, { fields: 0, deployments: 0 })
  }

  return { add, none, chunks: chunks.finish }
}

/** `expected`: a guess of how many signals there will be; `slices`: those of the new snapshot. */
export function createDraft(expected: number, slices: readonly IndexedSlice[]) {
  const to = filled(WRITTEN, (_, spec) => writerOf(spec, expected)) as Writers
  const { keys, digests, facts, deployments, offers } = to
  const rows = createRowDraft(to.rows)
  let count = 0
  let lastBound: readonly string[] | undefined
  let lastSet = 0

  /** The number of a set of countries: nearly always that of the offer is that of its signal. */
  function setOf(countries: readonly string[] | undefined): number {
    if (countries !== lastBound) {
      lastSet = facts.countrySets.id(countries?.join() ?? '')
      lastBound = countries
    }
    return lastSet
  }

  function close(): void {
    deployments.at.push(deployments.destination.length())
    offers.at.push(offers.slice.length())
    count += 1
  }

  function pushFacts(domainName: string, signal?: MergedSignal): void {
    facts.type.push(signal ? SIGNAL_TYPES.indexOf(signal.type) : 0)
    facts.valueType.push(signal?.valueType === undefined ? 0 : VALUE_TYPES.indexOf(signal.valueType) + 1)
    facts.provider.push(
      facts.providers.id(signal?.provider === undefined ? '' : providerWord(signal.provider)),
    )
    facts.domain.push(facts.domains.id(domainName))
    facts.countries.push(setOf(signal?.countries))
    facts.mixed.push(signal?.mixed ? 1 : 0)
    facts.anywhere.push(signal?.anywhere ? 1 : 0)
    facts.coverage.push(signal?.coverage ?? Number.NaN)
    facts.cpm.push(signal?.lowestCpm ?? Number.NaN)
    facts.percent.push(signal?.lowestPercent ?? Number.NaN)
    facts.currency.push(signal?.cpmCurrency ?? NO_CURRENCY)
  }

  function pushOffers(places: readonly OfferPlace[], signal?: MergedSignal): void {
    places.forEach(({ slice, row }, at) => {
      offers.slice.push(slice)
      offers.row.push(row)
      offers.stands.push(signal?.contributes[at] ? 1 : 0)
      offers.countries.push(setOf(signal?.bounds[at]))
    })
  }

  function pushDeployments(signal: MergedSignal, words: RowWords, places: readonly OfferPlace[]): void {
    const spans = keySpans(signal.deployments, () => places.map((place) => keptListing(slices, place)))
    signal.deployments.forEach(({ key, activationKey }, order) => {
      const { listing, start, bytes } = spans[order] ?? NO_SPAN
      deployments.destination.push(deployments.destinations.id(key))
      pushWords(deployments.words, words.deployments[order] ?? NO_DIGEST)
      for (const word of keyWords(activationKey)) deployments.key.push(word)
      deployments.keyOffer.push(listing)
      deployments.keyStart.push(start)
      deployments.keyBytes.push(bytes)
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
    const words = rowWords(signal, rows.add(signal))
    pushWords(keys, key, at)
    pushWords(digests.structure, words.structure)
    pushWords(digests.core, words.core)
    pushWords(digests.pricing, words.pricing)
    pushFacts(domainName, signal)
    pushDeployments(signal, words, places)
    pushOffers(places, signal)
    close()
  }

  /** Adds a withheld signal: it has offers and no row. */
  function withhold(key: ArrayLike<number>, at: number, domainName: string, places: readonly OfferPlace[]) {
    rows.none()
    pushWords(keys, key, at)
    for (const words of Object.values(digests)) pushWords(words, NO_DIGEST)
    pushFacts(domainName)
    pushOffers(places)
    close()
  }

  function finish(): Columns {
    const columns = filled(WRITTEN, (path, spec) => {
      if (spec.kind === 'list') return (valueAt(to, path) as WordWriter).list
      return (valueAt(to, path) as Column<Uint32Array>).finish()
    }) as Columns
    return { ...columns, count, rows: { ...columns.rows, chunks: rows.chunks() } }
  }

  return { add, withhold, finish }
}
