/**
 * A page of rows in the order of a column, without sorting all rows: one pass over them keeps the smallest that come after
 * the page before.
 */
import { SIGNAL_TYPES } from '../adcp/signal.js'
import { countryTest, createNarrowing, type Narrowing } from '../feed/narrowing.js'
import { converted, type Rates } from '../feed/query.js'
import { currencyCode } from '../merge/row.js'
import { inTurns } from '../process/portion-turns.js'
import { createMeter, type InPortions, type Meter } from '../process/portions.js'
import { createShared } from '../process/shared-work.js'
import { headBytes, type Snapshot } from '../snapshot/snapshot.js'
import type { Sort } from './feed-question.js'

type ValueOf = (entry: number) => number

/** A place in an ascending order: by value, and among equal values by entry. */
export type OrderPlace = { value: number; entry: number }

/**
 * An ascending order of one snapshot. A place is kept as a word, because the same value may mean another place in a later
 * snapshot: the rank of a name changes with each name that comes or goes before it.
 */
export type RowOrder = {
  value: ValueOf
  wordOf(entry: number): string
  /** The value in this snapshot after which the places after the word and the entry come. */
  valueOf(word: string, entry: number): number
}

/** An order by numbers that mean the same in each snapshot. */
export const byValue = (value: ValueOf): RowOrder => ({
  value,
  wordOf: (entry) => String(value(entry)),
  valueOf: Number,
})

/**
 * The order in which a search found rows. Scores cannot keep a place: with any change of the feed all of them move. So a row that is
 * still found is the place, wherever it stands; where one has left, as many come before as did when it stood there.
 */
export function foundOrder(entries: Uint32Array): RowOrder {
  const rankOf = new Map(Array.from(entries, (entry, rank) => [entry, rank]))
  const value: ValueOf = (entry) => rankOf.get(entry) as number
  return {
    value,
    wordOf: (entry) => String(value(entry)),
    valueOf: (word, entry) => rankOf.get(entry) ?? Number(word) - 0.5,
  }
}

const LAST = Number.MAX_VALUE // for entries whose value is not known

const RUN = 2_048 // numbers that are sorted between two stops: a millisecond or two

/** The numbers below `count` in the order of `isBefore`: a merge sort in portions. */
function* sorted(count: number, isBefore: (one: number, other: number) => boolean): InPortions<Uint32Array> {
  const meter = createMeter()
  let order = new Uint32Array(count)
  for (let at = 0; at < count; at += 1) order[at] = at
  for (let from = 0; from < count; from += RUN) {
    order.subarray(from, from + RUN).sort((a, b) => (isBefore(a, b) ? -1 : 1))
    yield
  }
  for (let width = RUN; width < count; width *= 2) {
    const joined = new Uint32Array(count)
    for (let from = 0; from < count; from += 2 * width) {
      const [middle, end] = [Math.min(from + width, count), Math.min(from + 2 * width, count)]
      for (let [one, other, to] = [from, middle, from]; to < end; to += 1) {
        meter.did(1)
        if (meter.isDue()) yield
        const isFirst =
          other >= end || (one < middle && isBefore(order[one] as number, order[other] as number))
        joined[to] = order[isFirst ? one++ : other++] as number
      }
    }
    order = joined
  }
  return order
}

/** What is sorted, in order, and the place of each in it. */
type Ranked = { order: Uint32Array; ranks: Uint32Array }

const ranked = new WeakMap<readonly string[], Ranked>()

/** Words in alphabetical order. */
function* rankedWords(words: readonly string[]): InPortions<Ranked> {
  const known = ranked.get(words)
  if (known) return known
  const order = yield* sorted(words.length, (a, b) => (words[a] as string) < (words[b] as string))
  const ranks = new Uint32Array(words.length)
  order.forEach((word, place) => {
    ranks[word] = place
  })
  ranked.set(words, { order, ranks })
  return { order, ranks }
}

/** How many at the beginning of an order come before something. */
function countBefore(order: Uint32Array, isBefore: (one: number) => boolean): number {
  let [low, high] = [0, order.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isBefore(order[middle] as number)) low = middle + 1
    else high = middle
  }
  return low
}

/** By the providers' domains, and for one provider by type. */
export function* providerOrder({ facts }: Pick<Snapshot, 'facts'>): InPortions<RowOrder> {
  const { domains } = facts
  const { order, ranks } = yield* rankedWords(domains)
  const typeOf = (entry: number) => facts.type[entry] as number
  return {
    value: (entry) => (ranks[facts.domain[entry] as number] as number) * SIGNAL_TYPES.length + typeOf(entry),
    wordOf: (entry) => `${typeOf(entry)} ${domains[facts.domain[entry] as number]}`,
    valueOf(word) {
      const [type = '', domain = ''] = word.split(' ', 2)
      const rank = countBefore(order, (one) => (domains[one] as string) < domain)
      const isThere = domains[order[rank] as number] === domain
      return rank * SIGNAL_TYPES.length + (isThere ? Number(type) : -0.5)
    },
  }
}

const NAME = Buffer.from('"name":"') // the first such member of a row is the signal's own: no member before it has one
const [QUOTE, BACKSLASH, UPPER_A, UPPER_Z, TO_LOWER] = [0x22, 0x5c, 0x41, 0x5a, 0x20]
const UNITS_A_NAME = 4 // reading a name is as much work as looking at this many signals
const COMPARED = 64 // bytes of a name; names that differ only after them are in no particular order

/**
 * Writes the beginning of a row's name, ASCII letters in lower case. Names are kept as bytes because a million strings
 * would burden the garbage collector.
 */
function putName(names: Uint8Array, place: number, head: Uint8Array): void {
  const found = Buffer.from(head.buffer, head.byteOffset, head.byteLength).indexOf(NAME)
  if (found < 0) return
  const [first, to] = [found + NAME.length, place * COMPARED]
  for (let at = 0; at < COMPARED; at += 1) {
    const byte = head[first + at] ?? QUOTE
    if (byte === QUOTE && head[first + at - 1] !== BACKSLASH) return
    names[to + at] = byte >= UPPER_A && byte <= UPPER_Z ? byte + TO_LOWER : byte
  }
}

/** Compares what `putName` wrote at two places. */
function compareNames(names: Uint8Array, one: number, others: Uint8Array, other: number): number {
  for (let at = 0; at < COMPARED; at += 1) {
    const difference = (names[one * COMPARED + at] as number) - (others[other * COMPARED + at] as number)
    if (difference !== 0) return difference
  }
  return 0
}

/** Entries in the alphabetical order of their names, and the rank of each entry. */
function* rankedNames(snapshot: Snapshot): InPortions<Ranked> {
  const meter = createMeter()
  const { shown } = snapshot
  const names = new Uint8Array(shown.length * COMPARED)
  for (let place = 0; place < shown.length; place += 1) {
    meter.did(UNITS_A_NAME)
    if (meter.isDue()) yield
    putName(names, place, headBytes(snapshot, shown[place] as number))
  }
  const order = yield* sorted(shown.length, (one, other) => {
    const difference = compareNames(names, one, names, other)
    return difference < 0 || (difference === 0 && one < other)
  })
  const ranks = new Uint32Array(snapshot.count)
  for (let rank = 0; rank < order.length; rank += 1) {
    meter.did(1)
    if (meter.isDue()) yield
    const entry = shown[order[rank] as number] as number
    ranks[entry] = rank
    order[rank] = entry
  }
  return { order, ranks }
}

const named = new WeakMap<Snapshot, Ranked>()
const naming = createShared<Snapshot, Ranked>()

/** The order by name, without regard to case. Made once per snapshot. Rejects when the signal is aborted. */
export async function nameOrder(snapshot: Snapshot, signal: AbortSignal): Promise<RowOrder> {
  const { order, ranks } =
    named.get(snapshot) ?? (await naming(snapshot, (stop) => inTurns(rankedNames(snapshot), stop), signal))
  named.set(snapshot, { order, ranks })
  const nameOf = (entry: number) => {
    const name = Buffer.alloc(COMPARED)
    putName(name, 0, headBytes(snapshot, entry))
    return name
  }
  return {
    value: (entry) => ranks[entry] as number,
    wordOf: (entry) => nameOf(entry).toString('latin1').replace(/\0+$/, ''),
    valueOf(word, entry) {
      const name = Buffer.alloc(COMPARED)
      name.write(word, 'latin1')
      const isBefore = (one: number) => {
        const difference = compareNames(nameOf(one), 0, name, 0)
        return difference < 0 || (difference === 0 && one <= entry)
      }
      return countBefore(order, isBefore) - 0.5
    },
  }
}

/** What decides what a row shows and how it compares: the countries that the reader names, and rates. */
export type RowReading = { countries: readonly string[] | undefined; rates: Rates | undefined; meter: Meter }

/** The CPM in USD where a rate is known, otherwise the plain number; entries without a CPM come last. */
function priceOf({ facts }: Snapshot, narrowing: Narrowing, rates: Rates | undefined): ValueOf {
  const factors = new Map<number, number | undefined>()
  const factorOf = (currency: number) => {
    const code = currencyCode(currency)
    if (!factors.has(currency)) {
      factors.set(currency, code === undefined ? undefined : converted(1, code, 'USD', rates))
    }
    return factors.get(currency)
  }
  return (entry) => {
    const narrowed = narrowing.numbersOf(entry)
    const price = narrowed?.cpm ?? (facts.cpm[entry] as number)
    if (Number.isNaN(price)) return LAST
    return price * (factorOf(narrowed?.currency ?? (facts.currency[entry] as number)) ?? 1)
  }
}

/** The number that an order compares, of what the row shows to this reader. */
export function orderValue(
  snapshot: Snapshot,
  sort: Exclude<Sort, 'relevance' | 'name' | 'provider'>,
  { countries, rates, meter }: RowReading,
): ValueOf {
  const { facts, offers } = snapshot
  const narrowing = createNarrowing(snapshot, countries, meter)
  if (sort === 'price' || sort === 'price_desc') {
    const price = priceOf(snapshot, narrowing, rates)
    if (sort === 'price') return price
    return (entry) => {
      const value = price(entry)
      return value === LAST ? LAST : -value
    }
  }
  if (sort === 'coverage') {
    return (entry) => {
      const coverage = narrowing.numbersOf(entry)?.coverage ?? (facts.coverage[entry] as number)
      return Number.isNaN(coverage) ? LAST : -coverage
    }
  }
  sort satisfies 'sellers'
  const allows = countries ? countryTest(snapshot, countries) : () => true
  return (entry) => {
    let standing = 0
    for (let one = offers.at[entry] as number; one < (offers.at[entry + 1] as number); one += 1) {
      if (offers.stands[one] && allows(offers.countries[one] as number, meter)) standing -= 1
    }
    return standing
  }
}

const isBefore = (one: OrderPlace, other: OrderPlace) =>
  one.value < other.value || (one.value === other.value && one.entry < other.entry)

/** Inserts `one` into the ordered list `found`, and keeps the list's first `limit`. */
export function keepFirst<T>(
  found: T[],
  one: T,
  isBefore: (one: T, other: T) => boolean,
  limit: number,
): void {
  const last = found[limit - 1]
  if (last !== undefined && !isBefore(one, last)) return
  let [low, high] = [0, found.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isBefore(one, found[middle] as T)) high = middle
    else low = middle + 1
  }
  found.splice(low, 0, one)
  if (found.length > limit) found.pop()
}

/** The first `limit` entries after a place, in order; without a place, the first ones. `meter`: counts the work of `value` too. */
export function* nextInOrder(
  entries: Uint32Array,
  value: ValueOf,
  after: OrderPlace | undefined,
  limit: number,
  meter: Meter,
): InPortions<OrderPlace[]> {
  const found: OrderPlace[] = []
  for (const entry of entries) {
    meter.did(1)
    if (meter.isDue()) yield
    const place = { value: value(entry), entry }
    if (after && !isBefore(after, place)) continue
    keepFirst(found, place, isBefore, limit)
  }
  return found
}
