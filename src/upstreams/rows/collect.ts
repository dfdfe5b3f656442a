/**
 * Gathers the read rows of many answers into what a slice is made of: each segment once, hashed, counted when refused.
 * Works in portions, so that an answer of any size never holds the event loop.
 */
import { nextOwnPortion } from '../../process/portions.js'
import { listingAt, MAX_REFUSED, type ReadRows, readRows, refusedRow } from './read-rows.js'
import { createSlabWriter, type Slab, slabRow } from './slab.js'
import { digestNumbers, type RefusedRow, slotOf } from './slice.js'

const PORTION = 1_000 // rows between two portions: a millisecond of work
const REREAD = 100 // the same for rows that are parsed again
const MAX_DOMAINS = 100_000
const FIRST_DIGESTS = 1_024
const FIRST_SLOTS = 1_024

export type Collected = {
  rows: Slab
  digests: BigUint64Array
  dropped: Readonly<Record<string, number>>
  refused: readonly RefusedRow[]
  /** Provider domains that the rows name, sorted. */
  domains: readonly string[]
}

type Taken = {
  /** Rows that were not seen before in this collection. */
  fresh: number
  repeated: number
}

function grownDigests(from: BigUint64Array, rows: number): BigUint64Array {
  const to = new BigUint64Array(new SharedArrayBuffer(rows * 8))
  to.set(from.length > rows ? from.subarray(0, rows) : from)
  return to
}

/** An empty set of digests, in typed arrays: a set of two million strings takes hundreds of megabytes of heap, this one 32. */
function createDigestSet() {
  let slots = new Uint32Array(FIRST_SLOTS * 2) // low and high word of each; a low word of 0 is an empty slot
  let count = 0

  /** Gives whether the digest is new in `table`. */
  function put(table: Uint32Array, low: number, high: number): boolean {
    const mask = table.length / 2 - 1
    let slot = slotOf(low, high, mask)
    while (table[slot * 2] !== 0) {
      if (table[slot * 2] === low && table[slot * 2 + 1] === high) return false
      slot = (slot + 1) & mask
    }
    table[slot * 2] = low
    table[slot * 2 + 1] = high
    return true
  }

  function grow(): void {
    const larger = new Uint32Array(slots.length * 2)
    for (let at = 0; at < slots.length; at += 2) {
      if (slots[at] !== 0) put(larger, slots[at] as number, slots[at + 1] as number)
    }
    slots = larger
  }

  return {
    /** Gives whether it was not there before. */
    add(low: number, high: number): boolean {
      if (count * 4 >= slots.length) grow()
      const isNew = put(slots, low || 1, high)
      if (isNew) count += 1
      return isNew
    },
  }
}

type CollectorOptions = {
  /** Answers to several questions: a row that comes again as it was is one of both, and nothing is lost. */
  overlapping?: boolean
}

/** `overlapping`: answers may have rows in common, and a row that comes again unchanged is not refused. */
export function createCollector({ overlapping = false }: CollectorOptions = {}) {
  const writer = createSlabWriter()
  const seen = createDigestSet()
  const whole = overlapping ? createDigestSet() : undefined // of whole rows
  const dropped = new Map<string, number>()
  const refused: RefusedRow[] = []
  const domains = new Set<string>()
  let digests = grownDigests(new BigUint64Array(0), FIRST_DIGESTS)
  let count = 0
  let bytes = 0

  function drop(reason: string, rows: number, named: readonly RefusedRow[]): void {
    dropped.set(reason, (dropped.get(reason) ?? 0) + rows)
    refused.push(...named.slice(0, MAX_REFUSED - refused.length))
  }

  /** Keeps the rows `first` to `last` (excluded) of an answer. */
  function keep({ bytes: from, ends, digests: given, places }: ReadRows, first: number, last: number): void {
    const rows = last - first
    if (count + rows > digests.length) digests = grownDigests(digests, (count + rows) * 2)
    digests.set(given.subarray(first, last), count)
    writer.appendRun(from, ends, first, last, places)
    bytes += (ends[last - 1] as number) - (ends[first - 1] ?? 0)
    count += rows
  }

  async function take(rows: ReadRows): Promise<Taken> {
    const segments = digestNumbers(rows.segments)
    const words = digestNumbers(rows.digests)
    const rowsGiven = rows.ends.length
    let repeated = 0
    let kept = 0 // rows before this one are kept, or left out
    for (let at = 0; at < rowsGiven; at += 1) {
      if (at > 0 && at % PORTION === 0) {
        if (at > kept) keep(rows, kept, at)
        kept = at
        await nextOwnPortion()
      }
      const isNew = seen.add(segments[at * 2] as number, segments[at * 2 + 1] as number)
      const isAlike = whole ? !whole.add(words[at * 2] as number, words[at * 2 + 1] as number) : false
      if (isNew) continue
      if (at > kept) keep(rows, kept, at)
      kept = at + 1
      repeated += 1
      if (isAlike) continue
      // One handle, one signal: activation could not tell two rows apart.
      const isNamed = refused.length < MAX_REFUSED
      drop('repeated', 1, isNamed ? [refusedRow('repeated', listingAt(rows, at))] : [])
    }
    if (rowsGiven > kept) keep(rows, kept, rowsGiven)
    for (const [reason, times] of Object.entries(rows.dropped)) drop(reason, times, [])
    refused.push(...rows.refused.slice(0, MAX_REFUSED - refused.length))
    for (const domain of rows.domains) if (domains.size < MAX_DOMAINS) domains.add(domain)
    return { fresh: rows.elements - repeated, repeated }
  }

  return {
    take,
    rows: () => count,
    /** What is held of them: their bytes and the places of their members. */
    bytes: () => bytes + writer.placesBytes(),
    finish(): Collected {
      return {
        rows: writer.finish(),
        digests: grownDigests(digests, count),
        dropped: Object.fromEntries(dropped),
        refused,
        domains: [...domains].sort(),
      }
    },
  }
}

export type Collector = ReturnType<typeof createCollector>

/** Rows that an earlier release kept, read again by the rules of today. */
export async function collectAgain(slab: Slab): Promise<Collected> {
  const collector = createCollector()
  for (let row = 0; row < slab.count; row += REREAD) {
    const portion = Array.from({ length: Math.min(REREAD, slab.count - row) }, (_, at) =>
      slabRow(slab, row + at),
    )
    await collector.take(readRows(portion))
    await nextOwnPortion()
  }
  return collector.finish()
}
