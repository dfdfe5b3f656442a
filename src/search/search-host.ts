/** Keeps a thread that indexes snapshots, and what is searched now. Serving goes on meanwhile on the index before. */
import type { Worker } from 'node:worker_threads'
import type { Snapshot } from '../snapshot/snapshot.js'
import { startThread } from '../threads/pool.js'
import { createSearcher, type Searcher } from './search.js'
import type { SearchBuild, SearchBuilt } from './search-worker.js'
import { compileSynonyms, type SynonymFile } from './synonyms.js'

/** An index, the snapshot whose entries its rows are, and the platforms that a question may name. */
export type Searchable = { snapshot: Snapshot; searcher: Searcher; platforms: readonly string[] }

const HEAP_MB = 4_096 // words of a million signals while they are gathered

export function createSearchHost(file: SynonymFile) {
  const synonyms = compileSynonyms(file)
  let worker: Worker | undefined
  let current: Searchable | undefined
  let next: { snapshot: Snapshot; number: number } | undefined
  let work: Promise<void> | undefined
  let published = 0
  let indexed = 0
  const waiting: (() => void)[] = []

  /** One that dies, at work or idle, is replaced by the next build. */
  function start(): Worker {
    const thread = startThread(new URL('./search-worker.js', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
    })
    const lost = () => {
      if (worker === thread) worker = undefined
    }
    return thread.on('error', lost).on('exit', lost)
  }

  function build({ count, rows }: Snapshot): Promise<SearchBuilt> {
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
      thread.postMessage({ synonyms: file, snapshot: { count, rows } } satisfies SearchBuild)
    })
  }

  let closed = false

  /** Indexes what waits, and what comes to wait meanwhile, whatever becomes of the one before. */
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
    work = undefined // in the same step as the last look: nothing comes to wait between the two
    if (failure && !closed) throw failure
  }

  return {
    /** Indexes a snapshot soon; only the newest that waits is. Rejects when the index could not be built. */
    publish(snapshot: Snapshot): Promise<void> {
      published += 1
      next = { snapshot, number: published }
      work ??= Promise.resolve().then(follow)
      return work
    },
    /** The number of the newest snapshot that was published; 0 before the first. */
    newest: () => published,
    /** Whether that snapshot, or a newer one, is what is searched. */
    covers: (number: number) => number > 0 && indexed >= number,
    /** When a snapshot was indexed, or could not be. */
    change: () =>
      new Promise<void>((resolve) => {
        waiting.push(resolve)
      }),
    /** What is searched now; undefined until the first index stands. */
    current: () => current,
    async close(): Promise<void> {
      closed = true // a build under way ends with its thread, and nobody waits for it any more
      next = undefined
      await worker?.terminate()
    },
  }
}
