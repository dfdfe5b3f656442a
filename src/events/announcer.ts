/**
 * Looks who is to be told what changed, and lets them be told (telling.ts): one job a subscription, which knows the versions that it
 * sent last, so that a restart continues from there. While a receiver is slow, changes gather, and the next comparison sends them
 * as one; a receiver that was away for long is sent one event that says to read again.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createSpareTime, type SpareTime, type ThreadTime } from '../process/spare-time.js'
import type { Held } from '../store/jobs.js'
import { createTurn } from '../store/turn.js'
import { createWorker, type Worker } from '../store/worker.js'
import { type Eyes, eyesName, type Standings, sameVersions, type ToldVersions } from './standings.js'
import { FEED_EVENTS_JOB } from './stream.js'
import { createTelling, type Idle, LONGEST_PAUSE_MS, type TellingOptions } from './telling.js'

const LOOK_AGAIN_MS = 5_000 // while subscribers cannot be looked for
/** A caller whose receivers all hang leaves most places to others. */
const PLACES = { inAll: 256, aLane: 32 }
/**
 * Subscribers that are claimed, and whose events are written down, as one: each round trip to the storage wakes the thread that
 * serves, and each commit waits for the disk; but what is done for all of a lot is done without a stop.
 */
export const TOGETHER = 8
/** Subscribers that are looked at before others have the thread. */
const LOOKED_AT = 500

type AnnouncerOptions = TellingOptions & {
  newId(): string
  /** Whether this process is one that may tell. Default: always. */
  mayTell?: () => boolean
  /** Default: that of the thread which tells. */
  threadTime?: ThreadTime
}

export function createAnnouncer(options: AnnouncerOptions) {
  const { store, standings, clock, newId, mayTell, eyesOf, threadTime, onProblem } = options
  const idle = new Map<string, Idle>()
  let worker: Worker | undefined
  let spareTime: SpareTime | undefined
  let checking: Promise<void> | undefined
  let [again, isLoaded] = [false, false]
  let cancelLook = () => {}

  async function isBehind(
    { caller, accountId, versions }: Idle,
    currentOf: Standings['current'],
  ): Promise<boolean> {
    const eyes = eyesOf(caller, accountId)
    const current = eyes && (await currentOf(eyes))
    return current !== undefined && (versions === undefined || !sameVersions(current, versions))
  }

  const { tell, suspend } = createTelling({
    ...options,
    spare: async () => await spareTime?.next(),
    isOver: () => !worker,
    async onIdle(job, one) {
      idle.set(job, one)
      // What was published between the comparison and now would wait for the next change.
      if (await isBehind(one, standings.current)) published()
    },
  })

  async function run(held: Held): Promise<void> {
    idle.delete(held.id)
    await tell(held)
  }

  async function check(): Promise<void> {
    const waiting: string[] = []
    if (!isLoaded) {
      waiting.push(...(await store.subscriptions.jobs()))
      isLoaded = true
    }
    const known = new Map<string, ToldVersions | undefined>() // the current versions, by reader
    async function currentOf(eyes: Eyes): Promise<ToldVersions | undefined> {
      const name = eyesName(eyes)
      if (!known.has(name)) known.set(name, await standings.current(eyes))
      return known.get(name)
    }
    for (const [order, [job, one]] of [...idle].entries()) {
      if (order % LOOKED_AT === LOOKED_AT - 1) await nextTurn()
      if (!(await isBehind(one, currentOf)) || idle.get(job) !== one) continue
      idle.delete(job) // until it has been told
      waiting.push(job)
    }
    if (waiting.length === 0) return
    await store.jobs.hasten(waiting, { untriedOnly: true }) // who took nothing is tried when its pause is over
    worker?.wake()
  }

  async function checkAll(): Promise<void> {
    try {
      while (again && worker) {
        again = false
        await check()
      }
    } catch (error) {
      isLoaded = false // what could not be woken is looked for as after a start
      cancelLook()
      cancelLook = clock.after(LOOK_AGAIN_MS, published)
      onProblem(`subscribers could not be looked for: ${error instanceof Error ? error.message : error}`)
    }
    checking = undefined // in the same step as the last look at `again`: no generation falls between the two
  }

  /** Call it with each generation: subscribers that see a difference are notified. */
  function published(): void {
    if (!worker) return
    again = true
    checking ??= checkAll()
  }

  const turn = createTurn({
    ...{ name: 'feed-events', jobs: store.jobs, clock, owner: newId(), onProblem },
    ...(mayTell && { mayHave: mayTell }),
    take() {
      const pace = createSpareTime(threadTime)
      const mine = createWorker({
        ...{ jobs: store.jobs, clock, owner: newId(), places: PLACES },
        ...{ together: TOGETHER, next: pace.nextToBegin },
        kinds: { [FEED_EVENTS_JOB]: { run, longestPauseMs: LONGEST_PAUSE_MS } },
        onProblem: (problem) => onProblem(`events: ${problem}`),
      })
      worker = mine
      spareTime = pace
      isLoaded = false
      mine.start()
      published()
      return async () => {
        if (worker === mine) worker = undefined
        pace.close()
        await mine.close()
        await checking
        idle.clear()
      }
    },
  })

  return {
    start: turn.start,
    published,
    /** How a job of this kind is ended: nothing more is sent to the subscriber, who may register again. */
    givingUp: {
      async [FEED_EVENTS_JOB](held: Held): Promise<void> {
        const [subscription] = await store.subscriptions.byJobs([held.id])
        if (subscription) await suspend(held, subscription, 'an operator gave it up')
        else await store.jobs.end(held, 'ended')
      },
    },
    /** A subscription was made: its job is due. */
    wake: () => worker?.wake(),
    /** Sends everything that is due now, once; resolves when that is done. */
    async round(): Promise<void> {
      await turn.settled()
      published()
      await checking
      await worker?.round()
    },
    /** Subscribers that are up to date. */
    waiting: () => idle.size,
    close: turn.close,
  }
}

export type Announcer = ReturnType<typeof createAnnouncer>
