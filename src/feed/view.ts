/**
 * Which signals a tuple selects, and the hashes of the parts that it shows. Filters read columns. Rows are read only
 * for signals whose offers differ in their countries, and only when the request names countries (feed/narrowing.ts).
 * Prices that a reader may not see never decide which signals it gets, because the selection would reveal them.
 */
import { LRUCache } from 'lru-cache'
import { SIGNAL_TYPES } from '../adcp/signal.js'
import { destinationMatcher } from '../merge/deployments.js'
import { compareKeys, countBelow, WORDS } from '../merge/identity.js'
import { createMeter, type InPortions, type Meter, PORTION } from '../process/portions.js'
import { createColumn, u32 } from '../process/shared-memory.js'
import { createDigest, NO_PRICES } from '../snapshot/digests.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import {
  countryTest,
  createNarrowing,
  type NarrowedFacts,
  type Narrowing,
  PASSES,
  UNKNOWN,
  type WordTest,
  wordTest,
} from './narrowing.js'
import type { Criteria, Reader } from './query.js'

export type View = {
  /** Entries, in key order. */
  readonly entries: Uint32Array
  /** Digests of the shown parts of these rows. */
  readonly structure: string
  readonly pricing: string
}

type Test = (entry: number) => boolean
/** A column of words' numbers, and which of the words pass. */
type WordColumn = { column: Uint32Array; test: WordTest }
/** What a signal has to pass: a test, or one of two columns has to have a word that does. */
type Criterion = Test | readonly [WordColumn, WordColumn]

/** A condition on who sells the signal: tested on the columns, or on the row that countries have narrowed. */
type OfferTest = { ofEntry: Test; ofNarrowed(facts: NarrowedFacts): boolean }

export type ViewCache = {
  get(snapshot: string, key: string): View | undefined
  set(snapshot: string, key: string, view: View): void
}

const VIEW_BYTES = 256 * 1024 * 1024 // 300 filtered walks through 200,000 signals, or 64 through a million
const SMALLEST = 1_024 // the size of a view without its entries
/** Entries that one test looks at before the next one does. */
const BATCH = 256
const DEPLOYMENTS_A_UNIT = 8 // this many deployments take as long as one signal

/** Whether a destination of the snapshot was asked for. */
export function destinationTest({ deployments }: Snapshot, asked: readonly string[]): WordTest {
  return wordTest(deployments.destinations, asked, () => destinationMatcher(asked))
}

/** The deployments of a narrowed row that are shown to a reader who asked for destinations. */
export function shownDeployments({ deployments }: NarrowedFacts, asked: readonly string[] | undefined) {
  if (!asked) return deployments
  const isAsked = destinationMatcher(asked)
  return deployments.filter(({ key }) => isAsked(key))
}

/**
 * Signals deployed on one of the destinations (keys, merge/deployments.ts), or sold by an agent that does not say where
 * it deploys; whatever countries are asked for.
 */
export function anyDeployment(snapshot: Snapshot, asked: readonly string[], meter?: Meter): Test {
  const { at, destination } = snapshot.deployments
  const isWanted = destinationTest(snapshot, asked)
  return (entry) => {
    if (snapshot.facts.anywhere[entry]) return true
    const end = at[entry + 1] as number
    meter?.did((end - (at[entry] as number)) / DEPLOYMENTS_A_UNIT)
    for (let one = at[entry] as number; one < end; one += 1) {
      if (isWanted(destination[one] as number, meter)) return true
    }
    return false
  }
}

function tests(snapshot: Snapshot, { types, providers, countries }: Criteria, meter: Meter): Criterion[] {
  const { facts } = snapshot
  const found: Criterion[] = []
  if (types) {
    const wanted = SIGNAL_TYPES.map((type) => types.includes(type))
    found.push((entry) => wanted[facts.type[entry] as number] === true)
  }
  if (providers) {
    const asked = new Set(providers)
    const among = (names: readonly string[]) => wordTest(names, providers, () => (name) => asked.has(name))
    found.push([
      { column: facts.provider, test: among(facts.providers) },
      { column: facts.domain, test: among(facts.domains) },
    ])
  }
  if (countries) {
    const allows = countryTest(snapshot, countries)
    found.push((entry) => allows(facts.countries[entry] as number, meter))
  }
  return found
}

/**
 * Whether a row's lowest CPM passes: it does without a CPM, and with prices in several currencies, or in one that cannot be
 * compared.
 */
export function priceTest(maxCpm: NonNullable<Criteria['maxCpm']>) {
  const most = new Map(maxCpm)
  return (cpm: number, currency: number) => !(cpm > (most.get(currency) ?? Number.POSITIVE_INFINITY))
}

function offerTests(snapshot: Snapshot, criteria: Criteria, seesPrices: boolean, meter: Meter): OfferTest[] {
  const { facts } = snapshot
  const { maxCpm, maxPercent, minCoverage, destinations } = criteria
  const found: OfferTest[] = []
  const put = (
    column: Float64Array,
    of: (facts: NarrowedFacts) => number,
    passes: (value: number) => boolean,
  ) =>
    found.push({
      ofEntry: (entry) => passes(column[entry] as number),
      ofNarrowed: (narrowed) => passes(of(narrowed)),
    })
  // Excludes a signal only when it has such options and every one is above. NaN means that it has none, so it passes.
  if (maxCpm && seesPrices) {
    const isAffordable = priceTest(maxCpm)
    found.push({
      ofEntry: (entry) => isAffordable(facts.cpm[entry] as number, facts.currency[entry] as number),
      ofNarrowed: ({ lowestCpm, cpmCurrency }) => isAffordable(lowestCpm, cpmCurrency),
    })
  }
  if (maxPercent !== undefined && seesPrices) {
    put(
      facts.percent,
      ({ lowestPercent }) => lowestPercent,
      (percent) => !(percent > maxPercent),
    )
  }
  // The scalar decides (specification, Filters). A signal without one is excluded, because it cannot be shown to reach
  // the minimum.
  if (minCoverage !== undefined) {
    put(
      facts.coverage,
      ({ coverage }) => coverage ?? Number.NaN,
      (coverage) => coverage >= minCoverage,
    )
  }
  if (destinations) {
    found.push({
      ofEntry: anyDeployment(snapshot, destinations, meter),
      ofNarrowed: (narrowed) => narrowed.anywhere || shownDeployments(narrowed, destinations).length > 0,
    })
  }
  return found
}

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

function* digestOf(column: Uint32Array, entries: Uint32Array, meter: Meter): InPortions<string> {
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
function* partDigests(
  snapshot: Snapshot,
  entries: Uint32Array,
  criteria: Criteria,
  narrowing: Narrowing,
  meter: Meter,
): InPortions<Omit<View, 'entries'>> {
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

/** The part of a reader that decides which signals it sees. */
type ViewReader = Pick<Reader, 'visibility' | 'wholeOnly'>

/**
 * Whether a signal has what 3.0 requires of each and 3.1 does not: a price and coverage (schema
 * signals/get-signals-response).
 */
function isWhole({ digests, facts }: Snapshot): OfferTest {
  const hasPrice = (words: ArrayLike<number>, at: number) =>
    NO_PRICES.some((word, place) => words[at * WORDS + place] !== word)
  return {
    ofEntry: (entry) => hasPrice(digests.pricing, entry) && !Number.isNaN(facts.coverage[entry]),
    ofNarrowed: ({ pricing, coverage = Number.NaN }) => hasPrice(pricing, 0) && !Number.isNaN(coverage),
  }
}

/** The same of its provider's name, which no narrowing changes. */
function hasProvider({ facts }: Snapshot): Test {
  return (entry) => facts.providers[facts.provider[entry] as number] !== ''
}

/**
 * Moves those of the first `count` entries to the front that have a word which passes in one of the columns; returns how many. A
 * loop over arrays, because a call for each signal takes three times as long.
 */
function lookUp(
  entries: Uint32Array,
  count: number,
  [one, other]: readonly [WordColumn, WordColumn],
  meter: Meter,
): number {
  const [columnOne, knownOne] = [one.column, one.test.known]
  const [columnOther, knownOther] = [other.column, other.test.known]
  let length = 0
  for (let at = 0; at < count; at += 1) {
    const entry = entries[at] as number
    const wordOne = columnOne[entry] as number
    const wordOther = columnOther[entry] as number
    const isMet = knownOne[wordOne] !== UNKNOWN && knownOther[wordOther] !== UNKNOWN
    const passes = isMet
      ? knownOne[wordOne] === PASSES || knownOther[wordOther] === PASSES
      : one.test(wordOne, meter) || other.test(wordOther, meter)
    if (passes) entries[length++] = entry
  }
  return length
}

/** Moves those of the first `count` entries that pass to the front, in their order; returns how many. */
function* kept(entries: Uint32Array, count: number, criterion: Criterion, meter: Meter): InPortions<number> {
  if (typeof criterion !== 'function') {
    const length = lookUp(entries, count, criterion, meter)
    if (meter.isDue()) yield
    return length
  }
  let length = 0
  for (let at = 0; at < count; at += 1) {
    const entry = entries[at] as number
    if (criterion(entry)) entries[length++] = entry
    if (meter.isDue()) yield // a single row may name a thousand destinations
  }
  return length
}

/** Whether the row that the named countries leave, if it is another, has an offer that passes. */
function passesOffers(entry: number, narrowing: Narrowing, offered: readonly OfferTest[]): boolean {
  const narrowed = narrowing.factsOf(entry)
  return narrowed
    ? offered.every(({ ofNarrowed }) => ofNarrowed(narrowed))
    : offered.every(({ ofEntry }) => ofEntry(entry))
}

/** The index of the first of sorted `entries` that is not below `entry`. */
function lowerBound(entries: Uint32Array, entry: number): number {
  let low = 0
  let high = entries.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((entries[middle] as number) < entry) low = middle + 1
    else high = middle
  }
  return low
}

/** Whether `entries` contains the entry. */
export function stands(entries: Uint32Array, entry: number): boolean {
  return entries[lowerBound(entries, entry)] === entry
}

/** The index in `entries` of the first signal with a key greater than `key`, which itself may no longer exist. */
export function firstBeyond({ keys, count }: Snapshot, entries: Uint32Array, key: Uint32Array): number {
  const below = countBelow(keys, count, key)
  const isThere = below < count && compareKeys(keys, below, key, 0) === 0
  return lowerBound(entries, isThere ? below + 1 : below)
}

/**
 * The views that were made of all layers' snapshots. They share one budget: a view of a large feed takes megabytes,
 * callers can invent any number of filters, and the total must not grow with the number of retained snapshots. The view that
 * was used longest ago goes first.
 */
export function createViewCache(): ViewCache {
  const views = new LRUCache<string, View>({
    maxSize: VIEW_BYTES,
    sizeCalculation: ({ entries }) => SMALLEST + entries.byteLength,
  })
  const nameOf = (snapshot: string, key: string) => `${snapshot} ${key}`
  return {
    get: (snapshot, key) => views.get(nameOf(snapshot, key)),
    set: (snapshot, key, view) => void views.set(nameOf(snapshot, key), view),
  }
}

/** The signals that pass every criterion. Without criteria it is the snapshot's own column, at no cost. */
export function* viewOf(
  snapshot: Snapshot,
  criteria: Criteria,
  { visibility, wholeOnly = false }: ViewReader,
): InPortions<View> {
  const meter = createMeter()
  const all = tests(snapshot, criteria, meter)
  const offered = offerTests(snapshot, criteria, visibility === 'full', meter)
  if (wholeOnly) {
    all.push(hasProvider(snapshot))
    offered.push(isWhole(snapshot))
  }
  const { shown, structure, pricing, digests } = snapshot
  if (all.length + offered.length === 0) return { entries: shown, structure, pricing }
  const narrowing = createNarrowing(snapshot, criteria.countries, meter)
  if (criteria.countries && offered.length > 0) all.push((entry) => passesOffers(entry, narrowing, offered))
  else all.push(...offered.map(({ ofEntry }) => ofEntry))
  const found = createColumn(u32, 0)
  const batch = new Uint32Array(BATCH)
  for (let from = 0; from < shown.length; from += BATCH) {
    const looked = shown.subarray(from, from + BATCH)
    batch.set(looked)
    let count = looked.length
    meter.did(looked.length)
    for (const criterion of all) count = yield* kept(batch, count, criterion, meter)
    found.pushAll(batch, 0, count)
  }
  const entries = found.finish()
  if (criteria.countries || criteria.destinations) {
    return { entries, ...(yield* partDigests(snapshot, entries, criteria, narrowing, meter)) }
  }
  return {
    entries,
    structure: yield* digestOf(digests.structure, entries, meter),
    pricing: yield* digestOf(digests.pricing, entries, meter),
  }
}
