/**
 * Builds snapshots in a worker thread, one after another. Slices and provider states are posted once, by object
 * identity; their bytes are in shared memory, so large ones cost no more to post. A snapshot comes back as plain data
 * over the same memory.
 */
import type { Worker } from 'node:worker_threads'
import type { ProviderState } from '../authz/rules/state.js'
import type { PolicySettings } from '../authz/rules/verdict.js'
import { createHeldMemory } from '../threads/held-memory.js'
import { startThread } from '../threads/pool.js'
import type { Slice } from '../upstreams/rows/slice.js'
import type { BuildOrder, BuildReply, ForgetOrder, RestoreOrder } from './build-worker.js'
import type { Snapshot } from './snapshot.js'
import { withViews } from './snapshot-parts.js'

export type BuildRequest = {
  /** The account whose overlay this is; absent for the public layer. */
  account?: string
  /** One per upstream; for an account, its own slices replace the public ones. */
  slices: readonly Slice[]
  providers: readonly ProviderState[]
  policy: PolicySettings
  /** The moment for which verdicts hold, ms. */
  now: number
}

export type Built = {
  snapshot: Snapshot
  /** When time alone changes a verdict, ms: the feed must be built again then. */
  rebuildAt?: number
}

export type BuilderHost = ReturnType<typeof createBuilderHost>

/** What one worker already holds. It ends with that worker. */
function createBook() {
  const numbers = new WeakMap<Slice, number>()
  const posted = new Set<number>()
  const layers = new Map<string, readonly number[]>()
  const states = new Map<string, ProviderState>()
  let last = 0

  function numberOf(slice: Slice): number {
    const known = numbers.get(slice)
    if (known !== undefined) return known
    last += 1
    numbers.set(slice, last)
    return last
  }

  function release(): void {
    const used = new Set([...layers.values()].flat())
    for (const number of posted) if (!used.has(number)) posted.delete(number)
  }

  function order({ account = '', slices, providers, policy, now }: BuildRequest): BuildOrder {
    const wanted = new Set(providers.map(({ domain }) => domain))
    const forgotten = [...states.keys()].filter((domain) => !wanted.has(domain))
    const changed = providers.filter((state) => states.get(state.domain) !== state)
    for (const domain of forgotten) states.delete(domain)
    for (const state of changed) states.set(state.domain, state)
    const named = slices.map((slice) => {
      const number = numberOf(slice)
      const isNew = !posted.has(number)
      posted.add(number)
      return isNew ? { number, slice } : { number }
    })
    layers.set(
      account,
      named.map(({ number }) => number),
    )
    return { kind: 'build', layer: account, slices: named, providers: changed, forgotten, policy, now }
  }

  function forget(layer: string): void {
    layers.delete(layer)
    release()
  }

  return { order, release, forget, numberOf, memory: createHeldMemory() }
}

export function createBuilderHost() {
  type BuildThread = { worker: Worker; book: ReturnType<typeof createBook> }
  let thread: BuildThread | undefined = open() // loads its code while slices are being read from disk
  let queue: Promise<unknown> = Promise.resolve()
  let closed = false

  /** A worker that ends by itself, busy or idle, is replaced by the next build. */
  function open(): BuildThread {
    const opened: BuildThread = {
      worker: startThread(new URL('./build-worker.js', import.meta.url)),
      book: createBook(),
    }
    const lost = () => {
      if (thread === opened) thread = undefined
    }
    opened.worker.on('error', lost).on('exit', lost)
    return opened
  }

  /** The worker's next message; rejects when the worker ends first. */
  function reply({ worker }: BuildThread): Promise<BuildReply> {
    return new Promise((resolve, reject) => {
      const settle = (act: () => void) => {
        worker.off('message', onMessage).off('error', onError).off('exit', onExit)
        act()
      }
      const onMessage = (message: BuildReply) => settle(() => resolve(message))
      const onError = (error: Error) => settle(() => reject(error))
      const onExit = (code: number) =>
        settle(() => reject(new Error(`the build worker ended with code ${code}`)))
      worker.on('message', onMessage).on('error', onError).on('exit', onExit)
    })
  }

  async function run(request: BuildRequest): Promise<Built> {
    if (closed) throw new Error('the builder is closed')
    thread ??= open()
    const from = thread
    const { book, worker } = from
    const answered = reply(from)
    worker.postMessage(book.order(request))
    const answer = await answered
    if (answer.kind === 'failed') {
      // After a bug, what the worker holds may differ from what this side believes: start a new worker.
      thread = undefined
      await worker.terminate()
      throw answer.error
    }
    book.release()
    const byNumber = new Map(request.slices.map((slice) => [book.numberOf(slice), slice]))
    const held = book.memory(answer.views)
    const snapshot = withViews(answer.snapshot, held)
    const slices = answer.slices.map(({ number, keys }) => ({
      slice: byNumber.get(number) as Slice,
      keys: held(keys),
    }))
    const built = { snapshot: { ...snapshot, slices } }
    return answer.rebuildAt === undefined ? built : { ...built, rebuildAt: answer.rebuildAt }
  }

  /** Builds run in the order of the requests. Rejects after close, or when the build fails because of a bug. */
  function build(request: BuildRequest): Promise<Built> {
    const built = queue.then(() => run(request))
    queue = built.catch(() => {}) // the caller sees the failure; the next build still runs
    return built
  }

  /** Gives the first build the public snapshot of an earlier process to start from. */
  function restore(snapshot: Snapshot): void {
    thread?.worker.postMessage({ kind: 'restore', snapshot } satisfies RestoreOrder)
  }

  /** Drops an account's last snapshot. */
  function forget(account: string): Promise<void> {
    const done = queue.then(() => {
      thread?.book.forget(account)
      thread?.worker.postMessage({ kind: 'forget', layer: account } satisfies ForgetOrder)
    })
    queue = done
    return done
  }

  /** Ends the worker; a build under way rejects. */
  async function close(): Promise<void> {
    closed = true
    await thread?.worker.terminate()
  }

  return { build, restore, forget, close }
}
