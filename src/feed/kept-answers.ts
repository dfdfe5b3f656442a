/**
 * A cache of answers for callers that poll or walk the feed with the same question. A question and its reader are
 * recognised by object identity, so repeated requests must pass the same objects. The answer of a page holds rows in a
 * snapshot's memory; publishing another snapshot drops all answers.
 */
import { LRUCache } from 'lru-cache'
import type { AdcpWarning } from '../adcp/error.js'
import type { Reader, WholesaleAnswer, WholesaleQuery } from './query.js'
import type { View } from './view.js'

/**
 * The views that were made of a layer's snapshots. They share one budget: a view of a large feed takes megabytes,
 * callers can invent any number of filters, and the total must not grow with the number of retained snapshots.
 */
const VIEW_BYTES = 256 * 1024 * 1024 // 300 filtered walks through 200,000 signals, or 64 through a million
const SMALLEST = 1_024 // the size of a view without its entries

export type ViewCache = {
  get(snapshot: string, key: string): View | undefined
  set(snapshot: string, key: string, view: View): void
}

/** Bounded in bytes; the view that was used longest ago goes first. */
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

const ANSWER_BYTES = 64 * 1024 * 1024
const PAGE_BYTES = 64 * 1024 * 1024
const OWN_BYTES = 8_192 // the size of an answer without rows of its own, with its texts

type Given = Exclude<WholesaleAnswer, { kind: 'refused' }>
type Kept = { answer: Given; holds(now: number): boolean }

/** A number per object, as long as the object lives. */
function createNumbers() {
  const numbers = new WeakMap<object, number>()
  let last = 0
  return (one: object): number => {
    const known = numbers.get(one)
    if (known !== undefined) return known
    last += 1
    numbers.set(one, last)
    return last
  }
}

const isShared = ({ buffer }: Uint8Array) => buffer instanceof SharedArrayBuffer

/** Bytes of rows that do not belong to a snapshot. */
function ownBytes(answer: Given): number {
  if (answer.kind !== 'page') return 0
  let bytes = 0
  for (const row of answer.rows) if (!isShared(row)) bytes += row.buffer.byteLength
  return bytes
}

/** Bounded in bytes; the answer that was used longest ago goes first. */
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

const MOST_PIECES = 4 // a page of at most this many pieces is sent from where its rows are

/** The shown part of a page: its rows, as pieces to be written in order, and its warnings. */
type PageBody = { rows: readonly Uint8Array[]; warnings: readonly AdcpWarning[] }

/** One piece. Rows that were put together for this page and are one piece already are it. */
function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const [only] = pieces
  if (only && pieces.length === 1 && !isShared(only)) return only
  const whole = Buffer.allocUnsafeSlow(pieces.reduce((sum, { byteLength }) => sum + byteLength, 0))
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.byteLength
  }
  return whole
}

/**
 * Pages whose rows had to be collected from many places or rewritten, shared by all readers who see the same. Each is
 * one piece, because a socket writes one large piece faster than a hundred small ones.
 */
export function createKeptPages() {
  const kept = new LRUCache<string, PageBody & { rows: readonly [Uint8Array] }>({
    maxSize: PAGE_BYTES,
    sizeCalculation: ({ rows: [whole] }, name) => whole.buffer.byteLength + name.length + 512,
  })

  /** The page with this name. The name must hold everything that decides what is shown. */
  function page(name: string, make: () => PageBody): PageBody {
    const found = kept.get(name)
    if (found) return found
    const made = make()
    if (made.rows.length <= MOST_PIECES && made.rows.every(isShared)) return made
    const { warnings } = made
    const rows = [joined(made.rows)] as const
    kept.set(name, { rows, warnings })
    return { rows, warnings }
  }

  return { page, clear: () => kept.clear() }
}
