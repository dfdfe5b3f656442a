/**
 * Answers that are given again and again: to whoever polls the feed or walks it with the same question. The question and
 * its reader are known by their objects, so whoever asks again gives the same ones. An answer of a page holds rows in the
 * memory of a snapshot; all of them go when another snapshot is published.
 */
import { LRUCache } from 'lru-cache'
import type { AdcpWarning } from '../adcp/error.js'
import type { Reader, WholesaleAnswer, WholesaleQuery } from './query.js'
import type { View } from './view.js'

/**
 * The views that were asked of a layer's snapshots. One budget for all of them: a view of a large feed has megabytes, and
 * what a caller can invent filters for must not grow with the number of snapshots that walks still need.
 */
const VIEW_BYTES = 256 * 1024 * 1024 // three hundred filtered walks through 200,000 signals, or 64 through a million
const SMALLEST = 1_024 // what a view costs beside its entries

export type ViewCache = {
  get(snapshot: string, key: string): View | undefined
  set(snapshot: string, key: string, view: View): void
}

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
const OWN_BYTES = 6_144 // what an answer takes beside rows of its own, with the words that are made of it

type Given = Exclude<WholesaleAnswer, { kind: 'refused' }>
type Kept = { answer: Given; holds(now: number): boolean }

/** A number for each object, for as long as it lives. */
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

/** Bytes of rows that are not those of a snapshot. */
function ownBytes(answer: Given): number {
  if (answer.kind !== 'page') return 0
  let bytes = 0
  for (const row of answer.rows) if (!(row.buffer instanceof SharedArrayBuffer)) bytes += row.byteLength
  return bytes
}

export function createKeptAnswers() {
  const numberOf = createNumbers()
  const kept = new LRUCache<string, Kept>({
    maxSize: ANSWER_BYTES,
    sizeCalculation: ({ answer }) => OWN_BYTES + ownBytes(answer),
  })
  const nameOf = (query: WholesaleQuery, reader: Reader) => `${numberOf(query)} ${numberOf(reader)}`

  return {
    /** What was answered before, if it still holds. */
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

const MOST_PIECES = 4 // of a page that is left where its rows stand

/** What is shown of a page: its rows, as pieces to be written in order, and what must be said of them. */
type PageBody = { rows: readonly Uint8Array[]; warnings: readonly AdcpWarning[] }

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const whole = Buffer.allocUnsafeSlow(pieces.reduce((sum, { byteLength }) => sum + byteLength, 0))
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.byteLength
  }
  return whole
}

/**
 * Rows of pages that had to be put together from many places or taken apart, shared by all readers who are shown the same.
 * They are one piece, since a socket takes one large piece sooner than a hundred small ones.
 */
export function createKeptPages() {
  const kept = new LRUCache<string, PageBody & { rows: readonly [Uint8Array] }>({
    maxSize: PAGE_BYTES,
    sizeCalculation: ({ rows: [whole] }, name) => whole.byteLength + name.length + 512,
  })

  /** The page of this name, which says everything that decides what is shown. */
  function page(name: string, make: () => PageBody): PageBody {
    const found = kept.get(name)
    if (found) return found
    const made = make()
    if (
      made.rows.length <= MOST_PIECES &&
      made.rows.every(({ buffer }) => buffer instanceof SharedArrayBuffer)
    ) {
      return made
    }
    const { warnings } = made
    const rows = [joined(made.rows)] as const
    kept.set(name, { rows, warnings })
    return { rows, warnings }
  }

  return { page, clear: () => kept.clear() }
}
