/**
 * Builds snapshots, one after another: those of small feeds in place, all others in a worker thread, and the first of a large
 * feed in two (docs/decisions.md#memory-and-threads). Slices and provider states are posted once, by object identity; their
 * bytes are in shared memory, so large ones cost no more to post. A snapshot comes back as plain data over the same memory.
 */
import type { PolicySettings, ProviderState } from '../authz/rules/verdict.js'
import { createHeldMemory, createNumbers } from '../process/memory.js'
import { inOwnTurns } from '../process/portion-turns.js'
import { createMeeting, endMeeting, startThread } from '../process/threads.js'
import { slabBytes } from '../upstreams/rows/slab.js'
import { type Slice, withoutPlaces } from '../upstreams/rows/slice.js'
import type { BuildOrder, BuildReply, ForgetOrder, RestoreOrder } from './build-worker.js'
import { createRowKeys } from './slice-index.js'
import { feedBytes, SMALL_FEED_BYTES, smallBytes } from './small-feed.js'
import { type Snapshot, withViews } from './snapshot.js'

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

/** What the place where builds are made already holds. It ends with that place. */
function createBook() {
  const posted = new Set<number>()
  const layers = new Map<string, readonly number[]>()
  const states = new Map<string, ProviderState>()
  const numberOf: (slice: Slice) => number = createNumbers()

  function release(): void {
    const used = new Set([...layers.values()].flat())
    for (const number of posted) if (!used.has(number)) posted.delete(number)
  }

  function order(
    { account = '', slices, providers, policy, now }: BuildRequest,
    givesWay: boolean,
  ): BuildOrder {
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
    return {
      kind: 'build',
      layer: account,
      slices: named,
      providers: changed,
      forgotten,
      policy,
      now,
      givesWay,
    }
  }

  function forget(layer: string): void {
    layers.delete(layer)
    release()
  }

  const isKnown = (slice: Slice) => posted.has(numberOf(slice))

  return { order, release, forget, numberOf, isKnown, memory: createHeldMemory(), layers: () => layers.size }
}

/** Where builds are made. */
type Place = {
  book: ReturnType<typeof createBook>
  isThread: boolean
  /** Rejects when it ends first. */
  answer(order: BuildOrder): Promise<BuildReply>
  tell(order: RestoreOrder | ForgetOrder): void
  end(): Promise<unknown>
}

/** Builds on this thread, in portions. Its code is loaded with the first such build. */
async function createHere(): Promise<Place> {
  const { createBuilds } = await import('./build-worker.js')
  const { build, note } = createBuilds()
  let hasEnded = false
  return {
    book: createBook(),
    isThread: false,
    async answer(order) {
      const reply = await inOwnTurns(build(order))
      if (hasEnded) throw new Error('the builder was closed')
      return reply
    },
    tell: note,
    async end() {
      hasEnded = true
    },
  }
}

/** Rows of so many bytes take one builder about a second; of fewer, a second one would save little. */
const ONE_BUILDER_BYTES = 64 * 1024 * 1024

/** Builds in a thread; `lost` is called when it ends. */
function createThread(lost: () => void): Place {
  const worker = startThread(new URL('./build-worker.js', import.meta.url))
  let hasEnded = false
  worker.on('error', lost).on('exit', () => {
    hasEnded = true
    lost()
  })
  return {
    book: createBook(),
    isThread: true,
    answer: (order) =>
      new Promise((resolve, reject) => {
        if (hasEnded) throw new Error('the build worker has ended')
        const settle = (act: () => void) => {
          worker.off('message', onMessage).off('error', onError).off('exit', onExit)
          act()
        }
        const onMessage = (message: BuildReply) => settle(() => resolve(message))
        const onError = (error: Error) => settle(() => reject(error))
        const onExit = (code: number) =>
          settle(() => reject(new Error(`the build worker ended with code ${code}`)))
        worker.on('message', onMessage).on('error', onError).on('exit', onExit)
        worker.postMessage(order)
      }),
    tell: (order) => worker.postMessage(order),
    end: () => worker.terminate(),
  }
}

/** A thread beside the one that builds; undefined when the system has none left. */
function createSecond(): Place | undefined {
  try {
    return createThread(() => {})
  } catch {
    return undefined
  }
}

/**
 * The answer of two threads: each finds the keys of half of the rows, then builds the signals of half of the keys, and the first
 * joins them. The second ends then; when it fails, the first builds alone.
 */
async function builtInHalves(
  first: Place,
  second: Place,
  order: BuildOrder,
  slices: readonly Slice[],
): Promise<BuildReply> {
  const share = { rowKeys: slices.map(createRowKeys), indexed: createMeeting() }
  const unawaited = () => endMeeting(share.indexed) // who has answered or ended finds no more keys
  try {
    const [one, other] = await Promise.all([
      first.answer({ ...order, share: { ...share, half: 0 } }).finally(unawaited),
      second
        .answer({ ...order, share: { ...share, half: 1 } })
        .catch((error): BuildReply => ({ kind: 'failed', error }))
        .finally(unawaited),
    ])
    const isWhole = one.kind === 'built' && other.kind === 'built'
    const again = { ...order, slices: order.slices.map(({ number }) => ({ number })) }
    const known = { ...again, providers: [], forgotten: [] }
    return await first.answer(isWhole ? { ...known, halves: [one, other] } : known)
  } finally {
    await second.end()
  }
}

const rowsBytes = (slices: readonly Slice[]): number =>
  slices.reduce((sum, { rows }) => sum + slabBytes(rows), 0)

/**
 * A feed of at most `inPlaceBytes`, all layers together, is built in place: 0 when a thread builds every feed. As long as none
 * has shown a signal, the public layer is built by two threads if most of its rows are new, and more than `oneBuilderBytes`.
 */
export function createBuilderHost(
  inPlaceBytes: number = SMALL_FEED_BYTES,
  oneBuilderBytes: number = ONE_BUILDER_BYTES,
) {
  let place: Place | undefined
  let queue: Promise<unknown> = Promise.resolve()
  let isServed = false // signals are: the other core serves them, and a thread that builds gives way
  let closed = false

  /** A thread that ends by itself, busy or idle, is replaced by the next build. */
  function openThread(): Place {
    const opened = createThread(() => {
      if (place === opened) place = undefined
    })
    return opened
  }

  /** Where so many bytes a layer are built. Who leaves this thread builds from nothing once, which takes little. */
  async function placeFor(bytes: () => number): Promise<Place> {
    if (place?.isThread) return place
    const isSmall = bytes() * Math.max(1, place?.book.layers() ?? 0) < inPlaceBytes
    const opened = isSmall ? (place ?? (await createHere())) : openThread()
    if (closed) {
      await opened.end()
      throw new Error('the builder is closed')
    }
    place = opened
    return opened
  }

  /** Whether two threads build it: from nothing, because neither must know more than the other. */
  function isForTwo({ account, slices }: BuildRequest): boolean {
    if (isServed || account !== undefined) return false
    const known = rowsBytes(slices.filter((slice) => place?.book.isKnown(slice)))
    const unknown = rowsBytes(slices) - known
    return unknown > Math.max(known, oneBuilderBytes)
  }

  /** Ends what is known of earlier builds. */
  async function beginAgain(): Promise<void> {
    const left = place
    place = undefined
    await left?.end()
  }

  async function run(request: BuildRequest): Promise<Built> {
    if (closed) throw new Error('the builder is closed')
    const isHalved = isForTwo(request)
    if (isHalved) await beginAgain()
    const from = await placeFor(() => feedBytes(request))
    const { book, isThread } = from
    const order = book.order(request, isServed)
    const second = isHalved && isThread ? createSecond() : undefined
    const answer = await (second ? builtInHalves(from, second, order, request.slices) : from.answer(order))
    if (answer.kind === 'failed') {
      // After a bug, what is held there may differ from what this side believes: begin again.
      await beginAgain()
      throw answer.error
    }
    isServed ||= answer.snapshot.shown.length > 0
    book.release()
    const byNumber = new Map(request.slices.map((slice) => [book.numberOf(slice), slice]))
    const held = book.memory(answer.views)
    const snapshot = withViews(answer.snapshot, held)
    const slices = answer.slices.map(({ number, keys }) => ({
      slice: withoutPlaces(byNumber.get(number) as Slice),
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

  /** Gives the next build the public snapshot of an earlier process to start from. A thread starts at once. */
  function restore(snapshot: Snapshot): void {
    if (closed) return
    isServed ||= snapshot.shown.length > 0
    queue = queue
      .then(() => placeFor(() => smallBytes(snapshot.rows.length)))
      .then((opened) => opened.tell({ kind: 'restore', snapshot }))
      .catch(() => {}) // it was closed meanwhile
  }

  /** Drops an account's last snapshot. */
  function forget(account: string): Promise<void> {
    const done = queue.then(() => {
      place?.book.forget(account)
      place?.tell({ kind: 'forget', layer: account })
    })
    queue = done
    return done
  }

  /** Ends the threads; a build under way rejects. */
  async function close(): Promise<void> {
    closed = true
    await place?.end()
    await queue
  }

  return { build, restore, forget, close }
}
