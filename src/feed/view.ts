/**
 * Which signals a tuple asks for, and what the parts of them that it shows hash to. Filters read columns; rows are read
 * only for signals whose offers differ in their countries, and only when countries are named (feed/narrowing.ts).
 * Prices that a reader may not see never decide which signals it gets, as the choice would tell them.
 */
import { SIGNAL_TYPES } from '../adcp/signal.js'
import { destinationMatcher, matchesDestination } from '../merge/deployments.js'
import { createColumn, u32 } from '../snapshot/columns.js'
import { createDigest, digestText } from '../snapshot/digest.js'
import { WORDS } from '../snapshot/keys.js'
import { NO_PRICES, pushWords } from '../snapshot/row-words.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { Criteria } from './canonical.js'
import { countryFlags, createNarrowing, type NarrowedFacts, type Narrowing } from './narrowing.js'
import type { Reader } from './query.js'
import { PORTION, type Steps } from './steps.js'

export type View = {
  /** Entries, in key order. */
  readonly entries: Uint32Array
  /** Digests of what is shown of these rows. */
  readonly structure: string
  readonly pricing: string
}

type Test = (entry: number) => boolean

/** What depends on who sells the signal: asked of the columns, or of the row that countries have narrowed. */
type OfferTest = { ofEntry: Test; ofNarrowed(facts: NarrowedFacts): boolean }

/** Numbers of the words that pass, as flags. */
function flags(words: readonly string[], passes: (word: string) => boolean): Uint8Array {
  return Uint8Array.from(words, (word) => (passes(word) ? 1 : 0))
}

/** One flag for each destination of the snapshot: whether it is one of the asked. */
export function destinationFlags({ deployments }: Snapshot, asked: readonly string[]): Uint8Array {
  return flags(deployments.destinations, destinationMatcher(asked))
}

/** The deployments of a narrowed row that are shown to whoever asked for destinations. */
export function shownDeployments({ deployments }: NarrowedFacts, asked: readonly string[] | undefined) {
  return asked
    ? deployments.filter(({ key }) => asked.some((one) => matchesDestination(key, one)))
    : deployments
}

/** What is deployed on one of the destinations, or sold by an agent that says of none whether it serves it. */
function anyDeployment(snapshot: Snapshot, asked: readonly string[]): OfferTest {
  const { at, destination } = snapshot.deployments
  const wanted = destinationFlags(snapshot, asked)
  const ofEntry = (entry: number) => {
    if (snapshot.facts.anywhere[entry]) return true
    for (let one = at[entry] as number; one < (at[entry + 1] as number); one += 1) {
      if (wanted[destination[one] as number]) return true
    }
    return false
  }
  return {
    ofEntry,
    ofNarrowed: (narrowed) => narrowed.anywhere || shownDeployments(narrowed, asked).length > 0,
  }
}

function tests(snapshot: Snapshot, { types, providers, countries }: Criteria): Test[] {
  const { facts } = snapshot
  const found: Test[] = []
  if (types) {
    const wanted = flags(SIGNAL_TYPES, (type) => types.includes(type))
    found.push((entry) => wanted[facts.type[entry] as number] === 1)
  }
  if (providers) {
    const asked = new Set(providers)
    const byName = flags(facts.providers, (name) => asked.has(name))
    const byDomain = flags(facts.domains, (domain) => asked.has(domain))
    found.push(
      (entry) =>
        byName[facts.provider[entry] as number] === 1 || byDomain[facts.domain[entry] as number] === 1,
    )
  }
  if (countries) {
    const allowed = countryFlags(snapshot, countries)
    found.push((entry) => allowed[facts.countries[entry] as number] === 1)
  }
  return found
}

function offerTests(snapshot: Snapshot, criteria: Criteria, seesPrices: boolean): OfferTest[] {
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
  // Excludes only what has such options and all of them above: NaN, no option, is not above anything.
  if (maxCpm && seesPrices) {
    // What is priced in another currency, or in several, does not compare: it is not hidden.
    const { amount, currency } = maxCpm
    found.push({
      ofEntry: (entry) => facts.currency[entry] !== currency || !((facts.cpm[entry] as number) > amount),
      ofNarrowed: ({ lowestCpm, cpmCurrency }) => cpmCurrency !== currency || !(lowestCpm > amount),
    })
  }
  if (maxPercent !== undefined && seesPrices) {
    put(
      facts.percent,
      ({ lowestPercent }) => lowestPercent,
      (percent) => !(percent > maxPercent),
    )
  }
  // The scalar decides (specification, Filters); a signal that does not state it cannot be shown to reach a minimum.
  if (minCoverage !== undefined) {
    put(
      facts.coverage,
      ({ coverage }) => coverage ?? Number.NaN,
      (coverage) => coverage >= minCoverage,
    )
  }
  if (destinations) found.push(anyDeployment(snapshot, destinations))
  return found
}

function* digestOf(column: Uint32Array, entries: Uint32Array): Steps<string> {
  const words = createColumn(u32, Math.min(entries.length, PORTION) * WORDS)
  const digest = createDigest()
  for (let first = 0; first < entries.length; first += PORTION) {
    for (const entry of entries.subarray(first, first + PORTION)) pushWords(words, column, entry)
    digest.update(words.finish())
    words.clear()
    yield
  }
  return digest.text()
}

/** Digests of rows of which a tuple shows a part: deployments elsewhere and offers for elsewhere take no part. */
function* partDigests(
  snapshot: Snapshot,
  entries: Uint32Array,
  criteria: Criteria,
  narrowing: Narrowing,
): Steps<Omit<View, 'entries'>> {
  const { digests, deployments } = snapshot
  const { at, destination, words } = deployments
  const wanted = criteria.destinations && destinationFlags(snapshot, criteria.destinations)
  const structure = createColumn(u32, entries.length * WORDS * 2)
  const pricing = createColumn(u32, entries.length * WORDS)
  for (const [order, entry] of entries.entries()) {
    const narrowed = narrowing.factsOf(entry)
    if (order % PORTION === PORTION - 1 || narrowing.isDue()) yield
    if (narrowed) {
      pushWords(structure, narrowed.core)
      for (const one of shownDeployments(narrowed, criteria.destinations)) pushWords(structure, one.words)
      pushWords(pricing, narrowed.pricing)
      continue
    }
    pushWords(structure, digests.core, entry)
    for (let one = at[entry] as number; one < (at[entry + 1] as number); one += 1) {
      if (!wanted || wanted[destination[one] as number]) pushWords(structure, words, one)
    }
    pushWords(pricing, digests.pricing, entry)
  }
  return { structure: digestText(structure.finish()), pricing: digestText(pricing.finish()) }
}

/** What of a reader decides which signals it is shown. */
export type ViewReader = Pick<Reader, 'visibility' | 'pricedOnly'>

function hasPrice({ digests }: Snapshot): OfferTest {
  const differs = (words: ArrayLike<number>, at: number) =>
    NO_PRICES.some((word, place) => words[at * WORDS + place] !== word)
  return {
    ofEntry: (entry) => differs(digests.pricing, entry),
    ofNarrowed: ({ pricing }) => differs(pricing, 0),
  }
}

/** The signals that pass every criterion. Without a criterion: the snapshot itself, at no cost. */
export function* viewOf(
  snapshot: Snapshot,
  criteria: Criteria,
  { visibility, pricedOnly = false }: ViewReader,
): Steps<View> {
  const all = tests(snapshot, criteria)
  const offered = offerTests(snapshot, criteria, visibility === 'full')
  if (pricedOnly) offered.push(hasPrice(snapshot))
  const { shown, structure, pricing, digests } = snapshot
  if (all.length + offered.length === 0) return { entries: shown, structure, pricing }
  const narrowing = createNarrowing(snapshot, criteria.countries)
  const found = createColumn(u32, 0)
  for (const [order, entry] of shown.entries()) {
    if (order % PORTION === PORTION - 1) yield
    if (!all.every((passes) => passes(entry))) continue
    const narrowed = offered.length > 0 ? narrowing.factsOf(entry) : undefined
    if (narrowing.isDue()) yield
    const passes = narrowed
      ? offered.every(({ ofNarrowed }) => ofNarrowed(narrowed))
      : offered.every(({ ofEntry }) => ofEntry(entry))
    if (passes) found.push(entry)
  }
  const entries = found.finish()
  if (criteria.countries || criteria.destinations) {
    return { entries, ...(yield* partDigests(snapshot, entries, criteria, narrowing)) }
  }
  return {
    entries,
    structure: yield* digestOf(digests.structure, entries),
    pricing: yield* digestOf(digests.pricing, entries),
  }
}
