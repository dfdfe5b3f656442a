/**
 * A page made of bytes. A row that is shown unchanged is not even looked at, and consecutive rows are sent as one piece. Rows
 * are written anew, into one piece, only where this reader's answer differs from the shared bytes: destinations left out,
 * fields not asked for, offers that cannot serve the countries, keys that the reader may see, prices that it may not.
 * Pages and answers that are asked for again are kept until another snapshot is published; others leave nothing behind.
 */
import { LRUCache } from 'lru-cache'
import { type AdcpWarning, howMany } from '../adcp/answer.js'
import { destinationMatcher } from '../merge/deployments.js'
import { placesIn, type Row } from '../merge/row.js'
import { createRowWriter, type RowBytes, type RowWriter, unasked } from '../merge/row-writer.js'
import { createNumbers, isLent, lend } from '../process/memory.js'
import { createSeen } from '../process/remembered.js'
import { handleAt, rowMembers, type Snapshot } from '../snapshot/snapshot.js'
import { destinationTest } from './filters.js'
import type { Grants } from './grants.js'
import { createNarrowing } from './narrowing.js'
import type { Criteria, Reader, WholesaleAnswer, WholesaleQuery } from './query.js'

const ANSWER_BYTES = 64 * 1024 * 1024
const OWN_BYTES = 8_192 // the size of an answer without rows of its own, with its texts
const KEPT_PAGE_BYTES = 64 * 1024 * 1024
const SEEN_PAGES = 2 ** 15
const MOST_PIECES = 4 // a page of at most this many pieces is sent from where its rows are
const FULL = 0.75 // memory of which this part is used is kept as it is
/** Bytes of rows on one page: a single row may be as large as an upstream is allowed to send. */
export const PAGE_BYTES = 2 * 1024 * 1024
const TAKEN_APART = 8 // the cost of a byte in a row that is put together (looked at, merged, copied), compared with an unchanged one
const KEY_BYTES = 128 // what a row grows by that shows a key, about

type Given = Exclude<WholesaleAnswer, { kind: 'refused' }>
type Kept = { answer: Given; holds(now: number): boolean }

/**
 * What happens to a page: whoever asked keeps it for those who ask again; it is sent, its memory given back, and forgotten;
 * or its reader has it for as long as it likes.
 */
export type PageUse = 'kept' | 'sent' | 'given'

/** Gives memory of at least so many bytes. */
type Take = (bytes: number) => Buffer

/** The shown part of a page: its rows, as pieces to be written in order, and its warnings. */
type PageBody = { rows: readonly Uint8Array[]; warnings: readonly AdcpWarning[] }

type Shape = {
  criteria: Criteria
  fields?: readonly string[]
  seesPrices: boolean
  grants: Grants
}

const encoder = new TextEncoder()
const takeNew: Take = Buffer.allocUnsafeSlow

const isShared = ({ buffer }: Uint8Array) => buffer instanceof SharedArrayBuffer

/** Bytes of rows that do not belong to a snapshot. */
function ownBytes(answer: Given): number {
  if (answer.kind !== 'page') return 0
  let bytes = 0
  for (const row of answer.rows) if (!isShared(row)) bytes += row.buffer.byteLength
  return bytes
}

/**
 * Answers for callers who poll or walk the feed with the same question. A question and its reader are recognised as objects,
 * so repeated requests must pass the same ones. Bounded in bytes; the answer that was used longest ago goes first.
 */
export function createKeptAnswers() {
  const numberOf = createNumbers()
  const kept = new LRUCache<string, Kept>({
    maxSize: ANSWER_BYTES,
    sizeCalculation: ({ answer }) => OWN_BYTES + ownBytes(answer),
  })
  const nameOf = (query: WholesaleQuery, reader: Reader) => `${numberOf(query)} ${numberOf(reader)}`

  return {
    /** The earlier answer, if it is still valid. */
    find(query: WholesaleQuery, reader: Reader, now: number): Given | undefined {
      const found = kept.get(nameOf(query, reader))
      return found?.holds(now) ? found.answer : undefined
    },
    keep(query: WholesaleQuery, reader: Reader, answer: Given, holds: Kept['holds']): void {
      kept.set(nameOf(query, reader), { answer, holds })
    },
    clear: () => kept.clear(),
  }
}

/** One piece. Rows that were put together for this page and are one piece already are it. */
function joined(pieces: readonly Uint8Array[], take: Take): Uint8Array {
  const [only] = pieces
  if (only && pieces.length === 1 && !isShared(only)) return only
  const length = pieces.reduce((sum, { byteLength }) => sum + byteLength, 0)
  const whole = take(length)
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.byteLength
  }
  return whole.subarray(0, length)
}

/**
 * Pages whose rows had to be collected from many places or rewritten, shared by all readers who see the same. Each is
 * one piece, because a socket writes one large piece faster than a hundred small ones. A page is kept from its second time
 * on, because who walks the feed asks for each once; what is sent the first time is in memory that the next one is written into.
 */
export function createKeptPages() {
  const kept = new LRUCache<string, PageBody & { rows: readonly [Uint8Array] }>({
    maxSize: KEPT_PAGE_BYTES,
    sizeCalculation: ({ rows: [whole] }, name) => whole.buffer.byteLength + name.length + 512,
  })
  const isSeen = createSeen(SEEN_PAGES)

  /** The page with this name. The name must hold everything that decides what is shown. */
  function page(name: string, use: PageUse, make: (take: Take) => PageBody): PageBody {
    const found = kept.get(name)
    if (found) return found
    const isKept = use === 'kept' || isSeen(name)
    const take = use === 'sent' && !isKept ? lend : takeNew
    const made = make(take)
    if (made.rows.length <= MOST_PIECES && made.rows.every(isShared)) return made
    const { warnings } = made
    const rows = [joined(made.rows, take)] as const
    if (isKept) kept.set(name, { rows, warnings })
    return { rows, warnings }
  }

  return { page, clear: () => kept.clear() }
}

/** Whether rows are so small that they fit one page in any case. */
export function isSmallPage({ rows: { length } }: Snapshot, entries: Uint32Array): boolean {
  return entries.reduce((bytes, entry) => bytes + (length[entry] as number), 0) * TAKEN_APART <= PAGE_BYTES
}

/** The rows of one page as pieces to be written in order, commas included. */
export function createPages(snapshot: Snapshot, shape: Shape) {
  const { criteria, fields, seesPrices, grants } = shape
  const isWanted = criteria.destinations && destinationTest(snapshot, criteria.destinations)
  const isNamed = destinationMatcher(criteria.destinations ?? [])
  const without = unasked(fields)
  const narrowing = createNarrowing(snapshot, criteria.countries)
  const { facts } = snapshot
  const { at, destination } = snapshot.deployments
  const { chunkOf, start, length } = snapshot.rows

  /** Whether a signal has a deployment that was asked for, or one that was not. */
  function deploys(entry: number, asAsked: boolean): boolean {
    if (!isWanted) return false
    for (let one = at[entry] as number; one < (at[entry + 1] as number); one += 1) {
      if (isWanted(destination[one] as number) === asAsked) return true
    }
    return false
  }

  const isAsItStands = (entry: number) =>
    !fields && !grants.holds(entry) && !narrowing.narrows(entry) && !deploys(entry, false)

  function membersOf(entry: number, narrowed: Row | undefined): RowBytes {
    if (!narrowed) return rowMembers(snapshot, entry, seesPrices)
    const opening = encoder.encode(narrowed.opening)
    const rest = encoder.encode(seesPrices ? narrowed.placed + narrowed.tail : narrowed.placed)
    const from = Buffer.concat([opening, rest])
    return { from, start: 0, end: from.byteLength, places: placesIn(narrowed, opening.byteLength) }
  }

  function put(writer: RowWriter, entry: number): void {
    const narrowed = narrowing.rowOf(entry)
    const first = at[entry] as number
    const count = narrowed ? narrowed.deployments.length : (at[entry + 1] as number) - first
    const shows = (order: number) =>
      narrowed
        ? isNamed(narrowed.deployments[order]?.key ?? '')
        : isWanted?.(destination[first + order] as number) === true
    writer.add(membersOf(entry, narrowed), {
      without,
      keyOf: grants.keysOf(entry, narrowed),
      destinations: criteria.destinations && { count, shows, names: isNamed },
    })
  }

  /** How many of these rows make a page: as many as `PAGE_BYTES` allows, and at least one. */
  function pageful(entries: Uint32Array): number {
    let bytes = 0
    const end = entries.findIndex((entry) => {
      bytes += (length[entry] as number) * (isAsItStands(entry) ? 1 : TAKEN_APART)
      return bytes > PAGE_BYTES
    })
    return end < 0 ? entries.length : Math.max(1, end)
  }

  const follows = (entry: number, next: number) =>
    chunkOf[entry] === chunkOf[next] &&
    (start[entry] as number) + (length[entry] as number) + 1 === start[next]

  /** The rows in one piece. */
  function together(entries: Uint32Array, take: Take): Uint8Array {
    let bytes = grants.name === '' ? 0 : KEY_BYTES * entries.length
    for (const entry of entries) bytes += (length[entry] as number) + 1
    const writer = createRowWriter(take(bytes))
    for (let order = 0; order < entries.length; order += 1) {
      const entry = entries[order] as number
      if (order > 0) writer.comma()
      if (seesPrices && isAsItStands(entry)) {
        const from = start[entry] as number
        const chunk = snapshot.rows.chunks[chunkOf[entry] as number] as Uint8Array
        writer.copy(chunk, from, from + (length[entry] as number))
      } else put(writer, entry)
    }
    const rows = writer.written()
    return isLent(rows) || rows.byteLength > rows.buffer.byteLength * FULL ? rows : Buffer.from(rows)
  }

  /** `take`: where rows are put together. */
  function rows(entries: Uint32Array, take: Take = takeNew): Uint8Array[] {
    if (entries.length === 0) return []
    if (!seesPrices || !entries.every(isAsItStands)) return [together(entries, take)]
    const pieces: Uint8Array[] = []
    for (let order = 0; order < entries.length; order += 1) {
      const entry = entries[order] as number
      let last = order
      while (last + 1 < entries.length && follows(entries[last] as number, entries[last + 1] as number))
        last += 1
      const end = entries[last] as number
      const comma = last === entries.length - 1 ? 0 : 1
      const chunk = snapshot.rows.chunks[chunkOf[entry] as number] as Uint8Array
      pieces.push(chunk.subarray(start[entry], (start[end] as number) + (length[end] as number) + comma))
      order = last
    }
    return pieces
  }

  function targetsOf(entry: number): string[] {
    const narrowed = narrowing.factsOf(entry)
    if (narrowed) return narrowed.deployments.map(({ key }) => key)
    const names = snapshot.deployments.destinations
    return [...destination.subarray(at[entry], at[entry + 1])].map((id) => names[id] as string)
  }

  /** Whether a signal can be had on each of the destinations. */
  function servesAll(entry: number, asked: readonly string[]): boolean {
    if (asked.length > 1 || narrowing.narrows(entry)) return asked.every(destinationMatcher(targetsOf(entry))) // it is symmetric
    return deploys(entry, true)
  }

  /**
   * PARTIAL_COVERAGE when a signal of the page lacks a requested destination, or does not list it (specification, Rules
   * for destinations 2).
   */
  function partialCoverage(entries: Uint32Array): AdcpWarning[] {
    const asked = criteria.destinations
    if (!asked) return []
    const lacking = [...entries].filter((entry) => !servesAll(entry, asked))
    const untold = lacking.filter(
      (entry) => narrowing.factsOf(entry)?.anywhere ?? facts.anywhere[entry] === 1,
    )
    const warning = (found: readonly number[], what: string): AdcpWarning[] => {
      const [first] = found
      if (first === undefined) return []
      return [
        {
          code: 'PARTIAL_COVERAGE',
          severity: 'warning',
          message: `${what}: ${found.length} of ${howMany(entries.length, 'signal')} on this page.`,
          field: `signals[${entries.indexOf(first)}].deployments`,
          details: { signals: found.map((entry) => handleAt(snapshot, entry)) },
        },
      ]
    }
    return [
      ...warning(
        lacking.filter((entry) => !untold.includes(entry)),
        'Not available on every requested destination',
      ),
      ...warning(
        untold,
        'From agents that list no destinations (ext.tributary.offers[].destinations_not_listed), so that use on the ' +
          'requested ones is not promised, and activate_signal learns it',
      ),
    ]
  }

  return { pageful, rows, partialCoverage }
}
