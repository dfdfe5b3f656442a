/**
 * The index that searches use. Each snapshot gets one of its own. That of a small snapshot is made on this thread, in portions; all
 * others are made in another thread. Until an index is finished, searches use the index of the snapshot before.
 */
import { inOwnTurns, inTurns } from '../process/portion-turns.js'
import { createPool } from '../process/thread-pool.js'
import { SMALL_FEED_BYTES, smallBytes } from '../snapshot/small-feed.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { createSearch, type SearchHits, type SearchOptions } from './search.js'
import {
  indexInPortions,
  type SearchBuilt,
  type SearchIndex,
  type SearchJob,
  type Synonyms,
} from './search-index.js'
import { lastWordCompleted } from './spelling.js'

const HEAP_MB = 4_096 // for the words of a million signals while they are collected

/** Searches one index for everybody, one search after the other. */
export function createSearcher(index: SearchIndex, synonyms: Synonyms) {
  let searchRows: ReturnType<typeof createSearch> | undefined // made with the first question, because of its arrays
  let last: Promise<unknown> = Promise.resolve()

  return {
    /**
     * Searches in portions: a word that a million rows have takes a tenth of a second. Rejects when the signal is aborted.
     */
    search(text: string, options: SearchOptions, signal?: AbortSignal): Promise<SearchHits> {
      const found = last.then(() => {
        searchRows ??= createSearch(index, synonyms)
        return inTurns(searchRows(text, options), signal)
      })
      last = found.catch(() => {})
      return found
    },
    /** The text with its last word completed (search/spelling.ts). */
    complete: (text: string) => lastWordCompleted(index.words, text),
  }
}

export type Searcher = ReturnType<typeof createSearcher>

/** An index, the snapshot whose entries are its rows, and the platforms that a question may name. */
export type Searchable = { snapshot: Snapshot; searcher: Searcher; platforms: readonly string[] }

/**
 * Indexes snapshots and holds the index in use. This thread indexes snapshots whose rows have fewer than `inPlaceBytes`; with 0,
 * another thread indexes all of them.
 */
export function createSearchHost(synonyms: Synonyms, inPlaceBytes: number = SMALL_FEED_BYTES) {
  const thread = createPool<SearchJob, SearchBuilt>({
    code: new URL('./search-index.js', import.meta.url),
    ...{ workerData: synonyms, size: 1, heapMb: HEAP_MB },
  })
  let current: Searchable | undefined
  let next: { snapshot: Snapshot; number: number } | undefined
  let work: Promise<void> | undefined
  let published = 0
  let indexed = 0
  const waiting: (() => void)[] = []

  function build({ count, rows }: Snapshot): Promise<SearchBuilt> {
    const givesWay = current !== undefined && current.snapshot.shown.length > 0
    return smallBytes(rows.length) < inPlaceBytes
      ? inOwnTurns(indexInPortions({ count, rows }, synonyms))
      : thread.run('', { count, rows, givesWay }, [], 0)
  }

  let closed = false

  /** Indexes the waiting snapshot, and those that arrive meanwhile. Throws when the last of these builds failed. */
  async function follow(): Promise<void> {
    let failure: unknown
    while (next) {
      const { snapshot, number } = next
      next = undefined
      try {
        if (snapshot.id !== current?.snapshot.id) {
          const { index, platforms } = await build(snapshot)
          current = { snapshot, searcher: createSearcher(index, synonyms), platforms }
        }
        indexed = number
        failure = undefined
      } catch (error) {
        failure = error
      }
      for (const proceed of waiting.splice(0)) proceed()
    }
    work = undefined // in the same step as the last check, so that nothing starts to wait in between
    if (failure && !closed) throw failure
  }

  return {
    /** Queues a snapshot for indexing; of those that wait only the newest is built. Rejects when the build fails. */
    publish(snapshot: Snapshot): Promise<void> {
      published += 1
      next = { snapshot, number: published }
      work ??= Promise.resolve().then(follow)
      return work
    },
    /** The number of the newest snapshot that was published; 0 before the first. */
    newest: () => published,
    /** Whether the index covers that snapshot or a newer one. */
    covers: (number: number) => number > 0 && indexed >= number,
    /** Resolves after a snapshot was indexed, or its build failed. */
    change: () =>
      new Promise<void>((resolve) => {
        waiting.push(resolve)
      }),
    /** The index in use; undefined until the first one is built. */
    current: () => current,
    async close(): Promise<void> {
      closed = true // the thread ends with its build, whose result nobody needs
      next = undefined
      await thread.close()
    },
  }
}
