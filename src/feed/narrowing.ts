/**
 * The signals of a snapshot whose row differs for a reader who names countries: those with an offer that may be used in
 * none of them (`offers.countries`). Their rows are merged again from the remaining offers. All others are shown
 * unchanged, at no cost.
 */
import { LRUCache } from 'lru-cache'
import { WORDS } from '../merge/keys.js'
import { narrowRow, type PublishedRow } from '../merge/merged-signal.js'
import type { Row } from '../merge/row.js'
import { type Meter, PORTION } from '../process/portions.js'
import { digestText, keyWords, rowWords, type Words } from '../snapshot/digests.js'
import { type IndexedSlice, rowAt, type Snapshot, standingListings } from '../snapshot/snapshot.js'

const MOST_KNOWN = 256 // questions whose results are remembered, per list
const KNOWN_BYTES = 8 * 1024 * 1024
const WORD_UNITS = 4 // the cost of a word that is met first, in signals looked at
const CHARACTERS_A_UNIT = 4

/**
 * Whether the word with this number, of a snapshot's list, passes a filter; computed when the word is first met. An upstream may
 * invent a word per signal, so computing all of them at once would make this caller, and all others, wait. Work in portions
 * passes a `meter`, which counts the cost.
 */
export type WordTest = {
  (number: number, meter?: Meter): boolean
  /** What is known of each word, for loops over all signals: a call for each takes three times as long. */
  readonly known: Uint8Array
}

export const UNKNOWN = 0 // not met before
export const PASSES = 1
const FAILS = 2

function createTest(words: readonly string[], passes: (word: string) => boolean): WordTest {
  const known = new Uint8Array(words.length)
  function test(number: number, meter?: Meter): boolean {
    const found = known[number]
    if (found !== UNKNOWN) return found === PASSES
    const word = words[number] as string
    meter?.did(WORD_UNITS + word.length / CHARACTERS_A_UNIT)
    const isPassing = passes(word)
    known[number] = isPassing ? PASSES : FAILS
    return isPassing
  }
  return Object.assign(test, { known })
}

const tests = new WeakMap<readonly string[], LRUCache<string, { test: WordTest; bytes: number }>>()
/** The digests of questions, which are the same objects for all pages of a walk (`criteriaOf`). */
const digests = new WeakMap<readonly string[], string>()

function digestOf(asked: readonly string[]): string {
  const found = digests.get(asked)
  if (found !== undefined) return found
  const made = digestText(JSON.stringify(asked))
  digests.set(asked, made)
  return made
}

/**
 * The cached test of a list: `asked` identifies it, and `make` gives the condition. Each page of a walk asks the same.
 */
export function wordTest(
  words: readonly string[],
  asked: readonly string[],
  make: () => (word: string) => boolean,
): WordTest {
  const ofList =
    tests.get(words) ??
    new LRUCache({ max: MOST_KNOWN, maxSize: KNOWN_BYTES, sizeCalculation: ({ bytes }) => bytes })
  tests.set(words, ofList)
  const key = digestOf(asked)
  const known = ofList.get(key)
  if (known) return known.test
  const test = createTest(words, make())
  const held = asked.reduce((sum, { length }) => sum + length, 0) // the condition holds on to what was asked
  ofList.set(key, { test, bytes: words.length + held + 1 })
  return test
}

/** The facts of a narrowed row that columns hold for the others: everything that filters and versions read. */
export type NarrowedFacts = Pick<
  Row,
  'coverage' | 'lowestCpm' | 'lowestPercent' | 'cpmCurrency' | 'anywhere'
> & {
  core: Words
  pricing: Words
  deployments: readonly { key: string; words: Words; secret: Words }[]
}

/** What rows are ordered by, of a narrowed row. NaN stands for none, as in the columns of a snapshot. */
type NarrowedNumbers = { cpm: number; currency: number; coverage: number }

export type Narrowing = {
  /** Whether the signal's row differs for this reader. */
  narrows(entry: number): boolean
  /** The narrowed row; undefined when the row is shown unchanged. */
  rowOf(entry: number): Row | undefined
  factsOf(entry: number): NarrowedFacts | undefined
  numbersOf(entry: number): NarrowedNumbers | undefined
}

/** The cost of merging a row again, in signals looked at: about 100 microseconds, and a millisecond for 20 KB. */
const MERGED_UNITS = PORTION / 32
const MERGED_BYTES_A_UNIT = 20_000 / PORTION

const KEPT_BYTES = 64 * 1024 ** 2
const FACTS_BYTES = 500 // and a key and ten numbers per deployment
const DEPLOYMENT_BYTES = 250

/**
 * A cache of narrowed rows, by what they are made from. Merging one takes twenty times as long as finding it, many sets
 * of countries leave the same offers, and few rows change between snapshots.
 */
const known = new LRUCache<string, NarrowedFacts>({
  maxSize: KEPT_BYTES,
  sizeCalculation: ({ deployments }) => FACTS_BYTES + DEPLOYMENT_BYTES * deployments.length,
})

/** By entry. `there`: whether the others are known. */
type Columns = { there: Uint8Array; cpm: Float64Array; currency: Uint32Array; coverage: Float64Array }

/**
 * The numbers of narrowed rows, of the snapshots and countries that were asked for last. Whoever finds the signals for these
 * countries meets the facts of every row, more than `known` may hold: an order of all rows would merge them again.
 */
const numbers = new LRUCache<string, Columns>({
  maxSize: KEPT_BYTES,
  sizeCalculation: (columns) => Object.values(columns).reduce((sum, { byteLength }) => sum + byteLength, 1),
})

function numbersFor({ id, count }: Snapshot, countries: readonly string[]): Columns {
  const name = `${id} ${digestOf(countries)}`
  const found = numbers.get(name)
  if (found) return found
  const [there, currency] = [new Uint8Array(count), new Uint32Array(count)]
  const made = { there, cpm: new Float64Array(count), currency, coverage: new Float64Array(count) }
  numbers.set(name, made)
  return made
}

const NOTHING: Narrowing = {
  narrows: () => false,
  rowOf: () => undefined,
  factsOf: () => undefined,
  numbersOf: () => undefined,
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

/** Whether a set of countries contains one that was asked for. No set means every country. */
export function countryTest({ facts }: Snapshot, asked: readonly string[]): WordTest {
  return wordTest(facts.countrySets, asked, () => {
    const wanted = new Set(asked)
    return (set) => set === '' || set.split(',').some((country) => wanted.has(country))
  })
}

/** `meter`: counts the work, when it is done in portions. */
export function createNarrowing(
  snapshot: Snapshot,
  countries: readonly string[] | undefined,
  meter?: Meter,
): Narrowing {
  if (!countries) return NOTHING
  const { facts, offers, rows, slices, digests } = snapshot
  const { at, stands, countries: bound } = offers
  const allows = countryTest(snapshot, countries)
  let columns: Columns | undefined

  const isLeft = (offer: number) => allows(bound[offer] as number, meter)

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

  /** Equal for equal published rows with equal listings of which the same offers remain. */
  function originOf(entry: number): string {
    let origin = digests.structure.subarray(entry * WORDS, (entry + 1) * WORDS).join()
    for (let offer = at[entry] as number; offer < (at[entry + 1] as number); offer += 1) {
      if (!stands[offer]) continue
      const { slice } = slices[offers.slice[offer] as number] as IndexedSlice
      origin += isLeft(offer) ? ` ${slice.digests[offers.row[offer] as number]}` : ' -'
    }
    return origin
  }

  /** Only for work in portions, which goes through all rows: a page is no reason to take so much memory. */
  function noted(entry: number, facts: NarrowedFacts): NarrowedFacts {
    if (meter) columns ??= numbersFor(snapshot, countries as readonly string[])
    if (!columns) return facts
    columns.there[entry] = 1
    columns.cpm[entry] = facts.lowestCpm
    columns.currency[entry] = facts.cpmCurrency
    columns.coverage[entry] = facts.coverage ?? Number.NaN
    return facts
  }

  function factsOf(entry: number): NarrowedFacts | undefined {
    if (!narrows(entry)) return undefined
    const origin = originOf(entry)
    meter?.did((at[entry + 1] as number) - (at[entry] as number))
    const found = known.get(origin)
    if (found) return noted(entry, found)
    meter?.did(MERGED_UNITS + (rows.length[entry] as number) / MERGED_BYTES_A_UNIT)
    const row = rowOf(entry)
    if (!row) return undefined
    const made = factsIn(row)
    known.set(origin, made)
    return noted(entry, made)
  }

  function numbersOf(entry: number): NarrowedNumbers | undefined {
    if (!narrows(entry)) return undefined
    columns ??= numbersFor(snapshot, countries as readonly string[])
    if (!columns.there[entry] && !factsOf(entry)) return undefined
    const { cpm, currency, coverage } = columns
    return {
      cpm: cpm[entry] as number,
      currency: currency[entry] as number,
      coverage: coverage[entry] as number,
    }
  }

  return { narrows, rowOf, factsOf, numbersOf }
}
