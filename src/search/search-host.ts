/**
 * Indexes snapshots, small ones on this thread in portions and all others in another one, and holds the index in use. Until an
 * index is finished, searches use the one before.
 */
import { inTurns, SMALL_FEED_BYTES, smallBytes } from '../process/portions.js'
import { createPool } from '../process/threads.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { createSearcher, type Searcher } from './search.js'
import { indexInPortions, type SearchBuild, type SearchBuilt, type Synonyms } from './search-index.js'

/** An index, the snapshot whose entries are its rows, and the platforms that a question may name. */
export type Searchable = { snapshot: Snapshot; searcher: Searcher; platforms: readonly string[] }

const HEAP_MB = 4_096 // for the words of a million signals while they are collected

/** Snapshots whose rows have fewer than `inPlaceBytes` are indexed on this thread; with 0, another thread indexes all of them. */
export function createSearchHost(synonyms: Synonyms, inPlaceBytes: number = SMALL_FEED_BYTES) {
  const thread = createPool<SearchBuild, SearchBuilt>({
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
    return smallBytes(rows.length) < inPlaceBytes
      ? inTurns(indexInPortions({ count, rows }, synonyms))
      : thread.run('', { count, rows }, [], 0)
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
