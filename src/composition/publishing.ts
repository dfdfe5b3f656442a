/**
 * From the world to the published feed: merged, saved, shared with other processes, and searched. A generation is all
 * snapshots of one revision of the world, built in the worker and published together. The publisher continues until the
 * published generation has the newest revision, also after a build that failed. Time alone can change the world, too, when a
 * grant's window opens or ends.
 */
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import { createBriefs, readSynonyms } from '../briefs/briefs.js'
import { webhookPolicy } from '../events/webhook.js'
import type { Feed } from '../feed/feed.js'
import type { Publication } from '../feed/layers.js'
import { backoffMs, type Clock, pause } from '../net/clock.js'
import type { Operations } from '../operations/operations.js'
import type { Revisions } from '../server/monitoring.js'
import { type BuilderHost, type Built, createBuilderHost } from '../snapshot/builder-host.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { areWhole } from '../upstreams/rows/storage.js'
import type { Upstreams } from '../upstreams/upstreams.js'
import type { Foundation, Stack } from './foundation.js'
import { createGenerations, type Generations } from './generations.js'
import { createSavedFeed, type Served } from './saved-snapshots.js'
import { accountAccess, accountsOf } from './settings.js'
import { isComing, type Sources } from './sources.js'
import type { World, Worlds } from './world.js'

const RETRY_WITHIN_MS = 1_000 // a build that failed is tried again after so long at first, and within some ten seconds always
/** Until a signal is shown, a build waits until nothing has come for so long, and not longer than that. */
const QUIET_MS = 2_000
const LONGEST_GATHERING_MS = 15_000
const LOOK_MS = 100
const INDEX_AGAIN_MS = 5_000
const TIME_APART_MS = 5_000 // of builds for which only time is a reason: what falls due meanwhile is taken together
const REST_MS = 15_000 // longer than the first feed waits for whoever does not answer, and than it takes to merge
const SYNONYMS = fileURLToPath(new URL('../../../config/synonyms.yaml', import.meta.url))

type PublisherOptions = {
  worlds: Worlds
  builder: BuilderHost
  feed: Feed
  clock: Clock
  random(): number
  log: Logger
  /** With other processes: one of them builds. Absent: this one is alone. */
  generations?: Generations
  /** Whether more is being read. */
  isComing(): boolean
  /** The rows that processes read for each other. */
  rows: Pick<Upstreams, 'loaded' | 'areFound'>
  /** Told of each generation's public snapshot, with how long its build took. */
  onPublished(before: Snapshot | undefined, after: Snapshot, seconds: number): void
  onFailure(): void
}

type Generation = {
  open: Built
  accounts: NonNullable<Publication['accounts']>
  rebuildAt: number | undefined
}

const slicesOf = ({ open, accounts }: World) => [
  ...new Set([...open.slices, ...[...accounts.values()].flatMap(({ slices }) => slices)]),
]

export function createPublisher(options: PublisherOptions) {
  const { worlds, builder, feed, clock, random, log, generations, isComing, rows } = options
  const { onPublished, onFailure } = options
  const built = new Set<string>() // accounts whose last snapshot the builder holds
  /** What was published from here last, and in which turn; alone, there is one turn. */
  let last: { revision: number; snapshot: Snapshot; epoch: number | undefined } | undefined
  let behindSince: number | undefined
  let failures = 0
  let working: Promise<void> | undefined
  let cancelRetry: (() => void) | undefined
  let cancelRebuild = () => {}
  let timedAt = Number.NEGATIVE_INFINITY // when time was the reason last, ms
  let cameAt = Number.NEGATIVE_INFINITY // when the world moved last, ms
  let hasShown = false // a signal, to whomever
  const ending = new AbortController()
  let hasFirst = () => {}
  const first = new Promise<void>((resolve) => {
    hasFirst = resolve
  })
  let state: 'waiting' | 'open' | 'closed' = 'waiting'
  let served: Served | undefined // of the generation in service

  async function generationOf({ open, accounts, providers, policy, now }: World): Promise<Generation> {
    const common = { providers, policy, now }
    const main = await builder.build({ ...common, slices: open.slices })
    const made = new Map<string, { snapshot: Snapshot; gaps: Publication['gaps'] & {} }>()
    const due = [main.rebuildAt]
    for (const [account, { slices, gaps, hasOwn }] of accounts) {
      const own = hasOwn ? await builder.build({ ...common, slices, account }) : main
      if (hasOwn) built.add(account)
      due.push(own.rebuildAt)
      made.set(account, { snapshot: own.snapshot, gaps })
    }
    for (const account of built) {
      if (accounts.get(account)?.hasOwn) continue
      built.delete(account)
      await builder.forget(account)
    }
    const next = Math.min(...due.map((at) => at ?? Number.POSITIVE_INFINITY))
    return { open: main, accounts: made, rebuildAt: Number.isFinite(next) ? next : undefined }
  }

  /** The revision that was published in this turn; 0: none, and whoever had the turn before has published something else. */
  const published = () => (last && last.epoch === generations?.turn()?.epoch ? last.revision : 0)

  /**
   * Rows and files come one after the other, and to merge a large feed takes longer than to wait for the next: begun with the
   * first of them, a few signals would be shown somewhat earlier, and all others much later.
   */
  function isGathering(): boolean {
    const now = clock.now()
    const isWithin = (ms: number, since: number) => now >= since && now < since + ms
    if (hasShown || feed.current()?.shown.length !== 0 || !isWithin(QUIET_MS, cameAt)) return false
    return isWithin(LONGEST_GATHERING_MS, worlds.movedAt() ?? now) && isComing()
  }

  /**
   * Every build leaves a snapshot for the collector, which sees none of its shared memory and so comes late: strangers, who choose
   * when their grants begin and end, must not set the pace of builds.
   */
  function followTime(rebuildAt: number | undefined): void {
    cancelRebuild()
    if (rebuildAt === undefined) return
    const now = clock.now()
    const apart = Math.min(TIME_APART_MS, timedAt + TIME_APART_MS - now) // also under a clock that was set back
    cancelRebuild = clock.after(Math.max(rebuildAt - now, apart), () => {
      timedAt = clock.now()
      worlds.moved()
    })
  }

  async function publishNext(): Promise<void> {
    behindSince ??= worlds.movedAt()
    const under = generations?.turn()
    if (generations && !under) return
    // Another process built what is in service: with rows that are not here yet, the feed would go back.
    if (generations && published() === 0) {
      if (!(await generations.heard())) throw new Error('what other replicas read cannot be heard')
      await rows.loaded()
    }
    const world = worlds.current()
    const areFound = rows.areFound(slicesOf(world))
    const definitions = generations?.definitions() ?? new Map()
    const base = feed.current()
    if (generations && base && base !== last?.snapshot) builder.restore(base) // another process's: all others hold its bytes
    const startedAt = clock.now()
    const { open, accounts, rebuildAt } = await generationOf(world)
    if (state === 'closed') return
    const told = { open: { snapshot: open.snapshot, gaps: world.open.gaps }, accounts, definitions }
    if (generations && under && !(await generations.tell(told, under, areFound))) return
    const before = feed.current()
    feed.publish(open.snapshot, clock.now(), { gaps: world.open.gaps, accounts, isCurrent: world.isCurrent })
    generations?.shown()
    last = { revision: world.revision, snapshot: open.snapshot, epoch: under?.epoch }
    served = accounts.size === 0 ? { snapshot: open.snapshot, gaps: world.open.gaps, rebuildAt } : undefined
    hasShown ||= [open, ...accounts.values()].some(({ snapshot }) => snapshot.shown.length > 0)
    behindSince = undefined
    onPublished(before, open.snapshot, (clock.now() - startedAt) / 1_000)
    hasFirst()
    followTime(rebuildAt)
  }

  const isBuilder = () => !generations || generations.turn() !== undefined
  const isBehind = () => state === 'open' && isBuilder() && published() < worlds.revision()

  async function catchUp(): Promise<void> {
    while (isBehind() && !cancelRetry) {
      try {
        if (isGathering()) {
          await pause(clock, LOOK_MS, ending.signal)
          continue
        }
        await publishNext()
        failures = 0
      } catch (err) {
        if (state === 'closed') break
        failures += 1
        onFailure()
        log.error({ err }, 'a snapshot could not be built; the last one stays, and it is tried again')
        const wait = backoffMs({ failures, refreshMs: RETRY_WITHIN_MS, random })
        cancelRetry = clock.after(wait, () => {
          cancelRetry = undefined
          follow()
        })
      }
    }
    working = undefined // in the same step as the last look at the world: no change falls between the two
  }

  function follow(): void {
    if (!working && !cancelRetry && isBehind()) working = catchUp()
  }

  worlds.onMove(() => {
    cameAt = clock.now()
    follow()
  })
  generations?.onTurns(follow)
  void generations?.first().then(() => hasFirst())

  return {
    /** From now on, and first for the world as it is. Resolves when the first generation is published. */
    open(): Promise<void> {
      if (state === 'waiting') state = 'open'
      generations?.offer()
      worlds.moved()
      return first
    },
    /** Resolves when the first generation is published. */
    first: () => first,
    /** What is published, if it shows all that is known, and no account gets anything else. */
    served: () => (published() === worlds.revision() ? served : undefined),
    revisions(): Revisions {
      // What another process builds is as new as what was told last.
      if (!isBuilder()) {
        const wanted = worlds.revision()
        return { built: generations?.isBehind() ? wanted - 1 : wanted, wanted, behindMs: 0 }
      }
      const since = behindSince ?? worlds.movedAt()
      const wanted = worlds.revision()
      const built = published()
      const behindMs = built < wanted && since !== undefined ? clock.now() - since : 0
      return { built, wanted, behindMs }
    },
    async close(): Promise<void> {
      state = 'closed'
      ending.abort()
      cancelRetry?.()
      cancelRebuild()
      await working
    },
  }
}

type PublishingOptions = {
  foundation: Foundation
  sources: Sources
  operations: Operations
  feed: Feed
  /** A feed of so few bytes has no threads of its own; absent: as each room thinks right. */
  smallFeedBytes: number | undefined
  /** How long after a restart questions wait for what the feed was merged from, ms. */
  restMs?: number | undefined
  /** Told of each generation that readers see by now, whichever process they ask. */
  onPublished(): void
}

/** Publishes nothing before `publisher.open`. */
export async function createPublishing(options: PublishingOptions, stack: Stack) {
  const { foundation, sources, operations, feed, smallFeedBytes, restMs = REST_MS, onPublished } = options
  const { inForce, config, store, clock, random, log, replica, secret, warning } = foundation
  const { blobs } = store
  const { upstreams, providers, verdicts, worlds } = sources
  const builder = stack.add(createBuilderHost(smallFeedBytes))
  const under = config().revision
  /** Undefined where an operator overrides the configuration. */
  function revision(): string | undefined {
    const { excluded, suspended } = inForce.overrides()
    return excluded.size + suspended.size === 0 ? config().revision : undefined
  }
  const savedFeed = stack.add(createSavedFeed({ blobs, clock, onTrouble: warning('feed'), revision }))
  let loading = replica ? undefined : savedFeed.load(under) // while everything else is made
  let rest: Promise<boolean> | undefined
  const briefs = stack.add(
    createBriefs({
      ...{ feed, upstreams, store, clock },
      post: foundation.post,
      egressPolicy: () => webhookPolicy(config().egress),
      judge: verdicts.judge,
      access: (reader, agentUrl) => accountAccess(config(), reader, agentUrl, secret),
      grantsOf: (caller) => config().callers.keys.find(({ id }) => id === caller)?.destinations,
      rates: () => config().rates,
      synonyms: await readSynonyms(SYNONYMS),
      ...{ secret, newId: randomUUID, smallFeedBytes },
      onTrouble: warning('discovery'),
      signsWebhooks: config().events.signingKey !== undefined,
    }),
  )

  function index(snapshot: Snapshot): void {
    briefs.publish(snapshot).catch((err: unknown) => {
      log.error({ err }, 'a snapshot could not be indexed; the last index stays, and it is tried again')
      clock.after(INDEX_AGAIN_MS, () => {
        if (feed.current() === snapshot) index(snapshot) // else a newer one has been indexed, or will be
      })
    })
  }

  function show(before: Snapshot | undefined, snapshot: Snapshot, seconds: number): void {
    operations.published(before, snapshot, seconds)
    index(snapshot)
    if (!generations) onPublished()
  }

  const generations =
    replica &&
    stack.add(
      createGenerations({
        ...{ sharing: replica.sharing, self: replica.self, members: replica.members },
        ...{ blobs, feed, clock, secret, onEverywhere: onPublished },
        accounts: () => accountsOf(config()),
        onTaken: (before, snapshot) => show(before, snapshot, 0),
        onTrouble: warning('replicas'),
      }),
    )
  const publisher = stack.add(
    createPublisher({
      ...{ worlds, builder, feed, clock, random, log, rows: upstreams },
      ...(generations && { generations }),
      isComing: () => isComing(upstreams, providers, clock),
      onPublished(before, snapshot, seconds) {
        operations.built(before, snapshot)
        if (!generations) savedFeed.keep(snapshot, publisher.served)
        show(before, snapshot, seconds)
      },
      onFailure: operations.buildFailed,
    }),
  )

  /** Whether the first generation comes in time. */
  function untilFirst(): Promise<boolean> {
    const ending = new AbortController()
    const end = () => ending.abort()
    stack.add({ close: end }) // before the server, which ends when all are answered
    const first = publisher.first().then(() => {
      rest = undefined
      end()
      return true
    })
    return Promise.race([first, pause(clock, restMs, ending.signal).then(() => false)])
  }

  return {
    ...{ briefs, publisher, generations },
    /**
     * Takes up the newest generation of processes that share the storage, or the merged feed of an earlier process that was alone
     * on it. The latter is shown as soon as its columns are there if it was what that served last. What is in force may change
     * before there is anything newer: then it is not shown any more. Resolves when all of it is read.
     */
    async restore(): Promise<void> {
      await generations?.tried()
      const last = await loading
      loading = undefined // it is large
      if (!last) return
      if (last.gaps && revision() === under) {
        inForce.onChanged(feed.resume(last.snapshot, clock.now(), last.gaps, last.chunks))
        rest = untilFirst()
      }
      if (await areWhole(last.chunks)) builder.restore(last.snapshot)
    },
    /**
     * As long as only what was restored is shown: what any question waits for that needs more. False: it has not come in
     * time, and whoever asks should ask again.
     */
    rest: () => rest,
  }
}

export type Publishing = Awaited<ReturnType<typeof createPublishing>>
