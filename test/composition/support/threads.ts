/**
 * The threads of this process under the eyes of a test: it ends one at any moment, as a lack of memory would, or holds a
 * message to one back, which makes its work as slow as the test wants. Call before anything starts a thread.
 */
import { syncBuiltinESMExports } from 'node:module'
import { basename } from 'node:path'
import workerThreads, { Worker } from 'node:worker_threads'

type Name = 'build-worker' | 'search-index' | 'inspector'
export function watchThreads() {
  const threads: { name: string; worker: Worker }[] = []
  /** Takes the next message to a thread of that name, and how it is delivered. */
  const holding = new Map<string, (deliver: () => void) => void>()

  class Watched extends Worker {
    readonly #name: string

    constructor(code: URL, options: ConstructorParameters<typeof Worker>[1]) {
      super(code, options)
      this.#name = basename(code.pathname, '.js')
      threads.push({ name: this.#name, worker: this })
    }

    override postMessage(...message: Parameters<Worker['postMessage']>): void {
      const deliver = () => super.postMessage(...message)
      const hold = holding.get(this.#name)
      holding.delete(this.#name)
      if (hold) hold(deliver)
      else deliver()
    }
  }
  workerThreads.Worker = Watched
  syncBuiltinESMExports()

  const of = (name: Name) => threads.filter((one) => one.name === name).map(({ worker }) => worker)

  return {
    /** How many threads of that name were started. */
    started: (name: Name) => of(name).length,
    /** Ends every thread of that name. */
    async end(name: Name): Promise<void> {
      await Promise.all(of(name).map((worker) => worker.terminate()))
    },
    /** Holds the next message to a thread of that name back; resolves when it was sent, with how it is delivered. */
    holdNext: (name: Name) => new Promise<() => void>((resolve) => holding.set(name, resolve)),
  }
}
