/**
 * The threads of this process under the eyes of a test: it ends one at any moment, as a lack of memory would, or holds a
 * message to one back, which makes its work as slow as the test wants. Call before anything starts a thread.
 */
import { syncBuiltinESMExports } from 'node:module'
import { basename } from 'node:path'
import workerThreads, { Worker } from 'node:worker_threads'

type Name = 'build-worker' | 'search-index' | 'inspector' | 'answer' | 'courier-thread'
export function watchThreads() {
  const threads: { name: string; worker: Worker }[] = []
  /** Takes one of the next messages to threads of that name, and how it is delivered. */
  const holding = new Map<string, { before: number; hold(deliver: () => void): void }>()
  const most = new Map<string, number>()

  class Watched extends Worker {
    readonly #name: string

    constructor(code: URL, options: ConstructorParameters<typeof Worker>[1]) {
      const name = basename(code.pathname).replace(/\.c?js$/, '') // of the program, or of what was compiled
      if (of(name).length >= (most.get(name) ?? Number.POSITIVE_INFINITY))
        throw new Error('no thread is left')
      super(code, options)
      this.#name = name
      threads.push({ name: this.#name, worker: this })
    }

    override postMessage(...message: Parameters<Worker['postMessage']>): void {
      const deliver = () => super.postMessage(...message)
      const held = holding.get(this.#name)
      if (!held || held.before > 0) {
        if (held) held.before -= 1
        deliver()
        return
      }
      holding.delete(this.#name)
      held.hold(deliver)
    }
  }
  workerThreads.Worker = Watched
  syncBuiltinESMExports()

  const of = (name: string) => threads.filter((one) => one.name === name).map(({ worker }) => worker)

  return {
    /** How many threads of that name were started. */
    started: (name: Name) => of(name).length,
    /** How many of them run. */
    running: (name: Name) => of(name).filter(({ threadId }) => threadId > 0).length,
    /** From now on only so many of that name can be started. */
    allow: (name: Name, count: number) => void most.set(name, count),
    /** Ends every thread of that name, or only those that were started after the first `but`. */
    async end(name: Name, but = 0): Promise<void> {
      await Promise.all(
        of(name)
          .slice(but)
          .map((worker) => worker.terminate()),
      )
    },
    /**
     * Holds the next message to a thread of that name back, after `before` others; resolves when it was sent, with how it is
     * delivered.
     */
    holdNext: (name: Name, before = 0) =>
      new Promise<() => void>((hold) => holding.set(name, { before, hold })),
  }
}
