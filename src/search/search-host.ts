/**
 * Indexes snapshots, small ones on this thread in portions and all others in a worker, and holds the index in use. Until an
 * index is finished, searches use the one before.
 */
import type { Worker } from 'node:worker_threads'
import { inTurns, SMALL_FEED_BYTES, smallBytes } from '../process/portions.js'
import { startThread } from '../process/threads.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { createSearcher, type Searcher } from './search.js'
import { indexInPortions, type SearchBuild, type SearchBuilt, type Synonyms } from './search-index.js'

/** An index, the snapshot whose entries are its rows, and the platforms that a question may name. */
export type Searchable = { snapshot: Snapshot; searcher: Searcher; platforms: readonly string[] }

const HEAP_MB = 4_096 // for the words of a million signals while they are collected

/** Snapshots whose rows have fewer than `inPlaceBytes` are indexed on this thread; with 0, a worker indexes all of them. */
export function createSearchHost(synonyms: Synonyms, inPlaceBytes: number = SMALL_FEED_BYTES) {
  let worker: Worker | undefined
  let current: Searchable | undefined
  let next: { snapshot: Snapshot; number: number } | undefined
  let work: Promise<void> | undefined
  let published = 0
  let indexed = 0
  const waiting: (() => void)[] = []

  /** Starts a worker. One that ends by itself, busy or idle, is replaced at the next build. */
  function start(): Worker {
    const thread = startThread(new URL('./search-worker.js', import.meta.url), {
      workerData: synonyms,
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
    })
    const lost = () => {
      if (worker === thread) worker = undefined
    }
    return thread.on('error', lost).on('exit', lost)
  }

  function buildInThread({ count, rows }: Snapshot): Promise<SearchBuilt> {
    const thread = worker ?? start()
    worker = thread
    return new Promise((resolve, reject) => {
      const onExit = () => reject(new Error('the search worker ended'))
      thread.once('exit', onExit)
      thread.once('error', reject)
      thread.once('message', (built: SearchBuilt) => {
        thread.unref() // an idle thread keeps no process alive
        thread.off('exit', onExit)
        thread.off('error', reject)
        resolve(built)
      })
      thread.ref()
      thread.postMessage({ count, rows } satisfies SearchBuild)
    })
  }

  function build(snapshot: Snapshot): Promise<SearchBuilt> {
    return smallBytes(snapshot.rows.length) < inPlaceBytes
      ? inTurns(indexInPortions(snapshot, synonyms))
      : buildInThread(snapshot)
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
      await worker?.terminate()
    },
  }
}
