/**
 * How many of the found signals each provider, seller, destination, country, type, value type and price step has, and the question
 * without what was chosen in one of these facets. Signals are counted over columns, in portions. A seller, a destination or a price
 * is counted only where its offer may be used in one of the countries that the reader names. What may be used everywhere counts for
 * each country, and what can be asked for at every destination for each of these.
 */
import { SIGNAL_TYPES, VALUE_TYPES } from '../adcp/signal.js'
import { priceTest } from '../feed/filters.js'
import { countryTest, createNarrowing, type Narrowing } from '../feed/narrowing.js'
import { criteriaOf, type Rates, type Selection } from '../feed/query.js'
import { createMeter, type InPortions } from '../process/portions.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import type { FeedQuestion, Found } from './feed-question.js'
import { keepFirst } from './in-order.js'

type Counted = { value: string; count: number }

const MOST_VALUES = 200 // of one facet; people scroll through no more
const UNITS_A_DEPLOYMENT = 0.25 // the work of one, compared with looking at a signal
/** Values of `max_cpm`. */
const PRICE_STEPS = [1, 2, 5, 10, 20] as const

/** What is chosen in these facets is a filter of get_signals; what is chosen in the others stands beside its filters. */
const FILTERS: Readonly<
  Record<Exclude<Facet, 'upstream' | 'value_type' | 'destination' | 'country'>, string>
> = {
  provider: 'data_providers',
  type: 'catalog_types',
  price: 'max_cpm',
}

/**
 * The question without the values chosen in one facet, to count what its other values would find. Undefined when none is
 * chosen.
 */
export function withoutFacet(question: FeedQuestion, facet: Facet): FeedQuestion | undefined {
  const { selection, upstreams, valueTypes } = question
  const { filters, destinations, countries, ...rest } = selection
  if (facet === 'upstream') return upstreams.length > 0 ? { ...question, upstreams: [] } : undefined
  if (facet === 'value_type') return valueTypes.length > 0 ? { ...question, valueTypes: [] } : undefined
  const left: Selection = { ...rest }
  if (facet === 'destination' || facet === 'country') {
    const [own, other] = facet === 'country' ? [countries, { destinations }] : [destinations, { countries }]
    if (!own) return undefined
    const kept = Object.fromEntries(Object.entries(other).filter(([, value]) => value !== undefined))
    return { ...question, selection: { ...left, ...(filters && { filters }), ...kept } }
  }
  const name = FILTERS[facet]
  if (filters?.[name] === undefined) return undefined
  const { [name]: _, ...others } = filters
  return {
    ...question,
    selection: {
      ...left,
      ...(Object.keys(others).length > 0 && { filters: others }),
      ...(destinations && { destinations }),
      ...(countries && { countries }),
    },
  }
}

const isBefore = (one: Counted, other: Counted) =>
  one.count > other.count || (one.count === other.count && one.value < other.value)

/**
 * The most frequent values, in order. Only those that are returned are sorted, because there may be very many. `everywhere`:
 * how many signals have all values, besides those counted.
 */
function most(words: ArrayLike<string>, counts: Uint32Array, everywhere = 0): Counted[] {
  const found: Counted[] = []
  for (let at = 0; at < counts.length; at += 1) {
    const one = { value: words[at] ?? '', count: everywhere + (counts[at] as number) }
    if (one.value !== '' && one.count > 0) keepFirst(found, one, isBefore, MOST_VALUES)
  }
  return found
}

type Tally = { count(entry: number): void; told(): Counted[] }
/** The countries that the reader names, and what they leave of a row; by which rates prices are compared. */
type Reading = Pick<Selection, 'countries' | 'filters'> & {
  narrowing: Narrowing
  rates: Rates | undefined
}

function byNumber(column: ArrayLike<number>, words: readonly string[]): Tally {
  const counts = new Uint32Array(words.length)
  return {
    count(entry) {
      const at = column[entry] as number
      counts[at] = (counts[at] as number) + 1
    },
    told: () => most(words, counts),
  }
}

/** A price counts what `max_cpm` finds: also signals without a CPM, and those whose prices it cannot compare. */
function byPrice({ facts }: Snapshot, { narrowing, filters, rates }: Reading): Tally {
  const tests = PRICE_STEPS.map((max_cpm) =>
    priceTest(criteriaOf({ filters: { ...filters, max_cpm } }, rates).maxCpm ?? []),
  )
  const counts = new Uint32Array(PRICE_STEPS.length) // by the lowest step that a signal passes
  return {
    count(entry) {
      const { cpm, currency } = narrowing.numbersOf(entry) ?? {
        cpm: facts.cpm[entry] as number,
        currency: facts.currency[entry] as number,
      }
      const at = tests.findIndex((passes) => passes(cpm, currency))
      if (at >= 0) counts[at] = (counts[at] as number) + 1
    },
    told() {
      let count = 0
      return PRICE_STEPS.map((step, at) => {
        count += counts[at] as number
        return { value: String(step), count }
      })
    },
  }
}

function byCountry({ facts }: Snapshot): Tally {
  const sets = new Uint32Array(facts.countrySets.length)
  return {
    count(entry) {
      const at = facts.countries[entry] as number
      sets[at] = (sets[at] as number) + 1
    },
    told() {
      const counts = new Map<string, number>()
      let everywhere = 0
      sets.forEach((count, at) => {
        const set = facts.countrySets[at] as string
        if (set === '') everywhere += count
        else if (count > 0) for (const one of set.split(',')) counts.set(one, (counts.get(one) ?? 0) + count)
      })
      return most([...counts.keys()], Uint32Array.from(counts.values()), everywhere)
    },
  }
}

function byUpstream(snapshot: Snapshot, { countries }: Reading): Tally {
  const { at, slice, stands, countries: bound } = snapshot.offers
  const ids = snapshot.slices.map(({ slice: { upstream } }) => upstream)
  const counts = new Uint32Array(ids.length)
  const seen = new Int32Array(ids.length).fill(-1)
  const allows = countries ? countryTest(snapshot, countries) : () => true
  return {
    count(entry) {
      for (let one = at[entry] as number; one < (at[entry + 1] as number); one += 1) {
        const from = slice[one] as number
        if (!stands[one] || seen[from] === entry || !allows(bound[one] as number)) continue
        seen[from] = entry
        counts[from] = (counts[from] as number) + 1
      }
    },
    told: () => most(ids, counts),
  }
}

function byDestination(snapshot: Snapshot, { narrowing }: Reading): Tally {
  const { at, destination, destinations } = snapshot.deployments
  const numbers = new Map<string, number>()
  const counts: number[] = []
  const numberOf = (word: string) => {
    const known = numbers.get(word)
    if (known !== undefined) return known
    numbers.set(word, counts.length)
    return counts.push(0) - 1
  }
  const targets = new Int32Array(destinations.length).fill(-1) // destinations of several accounts are one target
  const targetOf = (place: number) => {
    if (targets[place] === -1)
      targets[place] = numberOf((destinations[place] as string).split('#', 1)[0] as string)
    return targets[place] as number
  }
  let everywhere = 0
  return {
    count(entry) {
      const narrowed = narrowing.factsOf(entry)
      const found = new Set<number>()
      if (narrowed) {
        for (const { key } of narrowed.deployments) found.add(numberOf(key.split('#', 1)[0] as string))
      } else {
        for (let one = at[entry] as number; one < (at[entry + 1] as number); one += 1) {
          found.add(targetOf(destination[one] as number))
        }
      }
      if (narrowed ? narrowed.anywhere : snapshot.facts.anywhere[entry]) everywhere += 1
      else for (const target of found) counts[target] = (counts[target] as number) + 1
    },
    told: () => most([...numbers.keys()], Uint32Array.from(counts), everywhere),
  }
}

/** What signals are counted by, and how. */
const TALLIES = {
  provider: ({ facts }) => byNumber(facts.domain, facts.domains),
  upstream: byUpstream,
  destination: byDestination,
  country: byCountry,
  type: ({ facts }) => byNumber(facts.type, SIGNAL_TYPES),
  value_type: ({ facts }) => byNumber(facts.valueType, ['', ...VALUE_TYPES]),
  price: byPrice,
} as const satisfies Record<string, (snapshot: Snapshot, reading: Reading) => Tally>
type Facet = keyof typeof TALLIES
export const FACETS = Object.keys(TALLIES) as Facet[]

/** The values of each facet with the number of entries that have them, of what a selection finds. */
export function* counted(
  { seen: { snapshot, criteria }, entries }: Pick<Found, 'seen' | 'entries'>,
  facets: readonly Facet[],
  { filters }: Selection,
  rates: Rates | undefined,
): InPortions<Partial<Record<Facet, Counted[]>>> {
  const meter = createMeter()
  const { at } = snapshot.deployments
  const { countries } = criteria
  const narrowing = createNarrowing(snapshot, countries, meter)
  const reading: Reading = { ...(countries && { countries }), ...(filters && { filters }), narrowing, rates }
  const tallies = facets.map((facet) => [facet, TALLIES[facet](snapshot, reading)] as const)
  for (const entry of entries) {
    meter.did(facets.length * 0.5 + ((at[entry + 1] as number) - (at[entry] as number)) * UNITS_A_DEPLOYMENT)
    if (meter.isDue()) yield
    for (const [, tally] of tallies) tally.count(entry)
  }
  return Object.fromEntries(tallies.map(([facet, tally]) => [facet, tally.told()]))
}
