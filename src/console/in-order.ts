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

const LAST = Number.MAX_VALUE // for entries whose value is not known

const ranks = new WeakMap<readonly string[], Uint32Array>()

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

/** The rank of each word in alphabetical order. */
function* rankOf(words: readonly string[]): InPortions<Uint32Array> {
  const known = ranks.get(words)
  if (known) return known
  const order = yield* sorted(words.length, (a, b) => (words[a] as string) < (words[b] as string))
  const made = new Uint32Array(words.length)
  order.forEach((word, place) => {
    made[word] = place
  })
  ranks.set(words, made)
  return made
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

/** The rank of each entry's name in alphabetical order. */
function* nameRanks(snapshot: Snapshot): InPortions<Uint32Array> {
  const meter = createMeter()
  const { shown } = snapshot
  const names = new Uint8Array(shown.length * COMPARED)
  for (let place = 0; place < shown.length; place += 1) {
    meter.did(UNITS_A_NAME)
    if (meter.isDue()) yield
    putName(names, place, headBytes(snapshot, shown[place] as number))
  }
  const isBefore = (one: number, other: number) => {
    const [a, b] = [one * COMPARED, other * COMPARED]
    for (let at = 0; at < COMPARED; at += 1) {
      const difference = (names[a + at] as number) - (names[b + at] as number)
      if (difference !== 0) return difference < 0
    }
    return one < other
  }
  const order = yield* sorted(shown.length, isBefore)
  const ranks = new Uint32Array(snapshot.count)
  for (let rank = 0; rank < order.length; rank += 1) {
    meter.did(1)
    if (meter.isDue()) yield
    ranks[shown[order[rank] as number] as number] = rank
  }
  return ranks
}

const named = new WeakMap<Snapshot, Uint32Array>()
const naming = createShared<Snapshot, Uint32Array>()

/** The order by name, without regard to case. Made once per snapshot. Rejects when the signal is aborted. */
export async function nameOrder(snapshot: Snapshot, signal: AbortSignal): Promise<ValueOf> {
  const ranks =
    named.get(snapshot) ?? (await naming(snapshot, (stop) => inTurns(nameRanks(snapshot), stop), signal))
  named.set(snapshot, ranks)
  return (entry) => ranks[entry] as number
}

/** What decides what a row shows and how it compares: the countries that the reader names, and rates. */
type Reading = { countries: readonly string[] | undefined; rates: Rates | undefined; meter: Meter }

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

/**
 * The number that an order compares, of what the row shows to this reader. `relevance` is the order in which signals are found,
 * `name` is `nameOrder`.
 */
export function* orderValue(
  snapshot: Snapshot,
  sort: Exclude<Sort, 'relevance' | 'name'>,
  { countries, rates, meter }: Reading,
): InPortions<ValueOf> {
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
  if (sort === 'provider') {
    const rank = yield* rankOf(facts.domains)
    return (entry) =>
      (rank[facts.domain[entry] as number] as number) * SIGNAL_TYPES.length + (facts.type[entry] as number)
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
