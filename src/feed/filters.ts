/**
 * What a signal has to pass to be in a view. Filters read columns. Rows are read only for signals whose offers differ in their
 * countries, and only when the request names countries (feed/narrowing.ts). Prices that a reader may not see never decide which
 * signals it gets, because the selection would reveal them.
 */
import { SIGNAL_TYPES } from '../adcp/signal.js'
import { destinationMatcher } from '../merge/deployments.js'
import { WORDS } from '../merge/keys.js'
import type { InPortions, Meter } from '../process/portions.js'
import { NO_PRICES } from '../snapshot/digests.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import {
  countryTest,
  type NarrowedFacts,
  type Narrowing,
  PASSES,
  UNKNOWN,
  type WordTest,
  wordTest,
} from './narrowing.js'
import type { Criteria, Reader } from './query.js'

export const DEPLOYMENTS_A_UNIT = 8 // this many deployments take as long as one signal

type Test = (entry: number) => boolean
/** A column of words' numbers, and which of the words pass. */
type WordColumn = { column: Uint32Array; test: WordTest }
/** What a signal has to pass: a test, or one of two columns has to have a word that does. */
type Criterion = Test | readonly [WordColumn, WordColumn]

/** A condition on who sells the signal: tested on the columns, or on the row that countries have narrowed. */
type OfferTest = { ofEntry: Test; ofNarrowed(facts: NarrowedFacts): boolean }

/** The part of a reader that decides which signals it sees. */
export type ViewReader = Pick<Reader, 'visibility' | 'wholeOnly'>

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

/** Whether the row that the named countries leave, if it is another, has an offer that passes. */
function passesOffers(entry: number, narrowing: Narrowing, offered: readonly OfferTest[]): boolean {
  const narrowed = narrowing.factsOf(entry)
  return narrowed
    ? offered.every(({ ofNarrowed }) => ofNarrowed(narrowed))
    : offered.every(({ ofEntry }) => ofEntry(entry))
}

/** Everything that a signal has to pass. `narrowing`: to the countries that are named. */
export function filtersOf(
  snapshot: Snapshot,
  criteria: Criteria,
  { visibility, wholeOnly = false }: ViewReader,
  narrowing: Narrowing,
  meter: Meter,
): Criterion[] {
  const all = tests(snapshot, criteria, meter)
  const offered = offerTests(snapshot, criteria, visibility === 'full', meter)
  if (wholeOnly) {
    all.push(hasProvider(snapshot))
    offered.push(isWhole(snapshot))
  }
  if (criteria.countries && offered.length > 0) all.push((entry) => passesOffers(entry, narrowing, offered))
  else all.push(...offered.map(({ ofEntry }) => ofEntry))
  return all
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
export function* keepPassing(
  entries: Uint32Array,
  count: number,
  criterion: Criterion,
  meter: Meter,
): InPortions<number> {
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
