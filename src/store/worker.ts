/**
 * Who works on jobs. A worker takes up those that nobody waits for, and renews the leases of those that somebody waits for. Lanes
 * take turns: an upstream whose calls hang uses up only its own few places. A job that cannot be done now is tried later, after
 * growing pauses.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { firstOf } from '../adcp/answer.js'
import { type Clock, doubledMs } from '../net/clock.js'
import { createLots, StorageUnavailable, StorageUnusable } from './database/storage-work.js'
import { type Due, HEARTBEAT_MS, type Held, type Hold, type Jobs, LEASE_MS } from './jobs.js'

const LOOK_EVERY_MS = 1_000
const LOOKED_AT = 256
const MOST_NAMED = 3 // jobs, in one line of the log
const FIRST_PAUSE_MS = 500
/** What jobs know that are claimed together is read in one turn of the thread: large ones with fewer others. */
const BYTES_OF_ONE = 512
const PLACES = { inAll: 64, aLane: 8 }

type JobKind = {
  /** Ends the job or releases it; a job that it leaves held is released after a pause. */
  run(held: Held): Promise<void>
  /** The longest pause between two attempts, ms. Default: a minute. */
  longestPauseMs?: number
}

type WorkerOptions = {
  jobs: Jobs
  clock: Clock
  /** Names this process. */
  owner: string
  kinds: Readonly<Record<string, JobKind>>
  /** Jobs worked on at once, in all and per lane. */
  places?: { inAll: number; aLane: number }
  /** Jobs that begin at once and are claimed as one; more than one only where none has a target. Default: 1. */
  together?: number
  /** Resolves when the next of them may begin. Default: at once. */
  next?(): Promise<void>
  /** Receives what an operator should know. */
  onProblem: (problem: string) => void
}

/** A job that is worked on. `isLost`: another process has taken it up, so its lease is no longer renewed. */
type InHand = { held: Held; done: Promise<void>; isLost: boolean }

/** How long a job pauses after so many attempts, ms. */
export function pauseAfter(attempts: number, longestMs = 60_000): number {
  return doubledMs(attempts, FIRST_PAUSE_MS, longestMs)
}

/** The worker of one process. It takes up due jobs from `start` on; `round` does so once. */
export function createWorker(options: WorkerOptions) {
  const { jobs, clock, owner, kinds, places: limits = PLACES, together = 1, next, onProblem } = options
  const hold: Hold = { owner, ms: LEASE_MS }
  const inHand = new Map<string, InHand>()
  const claimed = new Set<string>() // claimed, or about to be, and not yet worked on
  /** Jobs that nobody waits for, from just before they are claimed; those that are waited for are bounded elsewhere. */
  const begun = new Map<string, Promise<void>>()
  const places = new Map<string, number>() // that they take, by lane
  const claimWithOthers = createLots(
    (due: readonly Due[]) =>
      jobs.claimAll(
        due.map(({ id }) => id),
        hold,
      ),
    { next: nextTurn, weight: ({ bytes }) => 1 + bytes / BYTES_OF_ONE },
  )
  let isStarted = false
  let closed = false
  let looking: Promise<void> | undefined
  let again = false
  let cancelLook = () => {}
  let cancelBeat = () => {}
  let beating = false

  function tell(what: string, error: unknown): void {
    const isTold = error instanceof StorageUnavailable || error instanceof StorageUnusable
    onProblem(`${what}: ${isTold ? error.message : String(error)}`)
  }

  async function beat(): Promise<void> {
    const ours = [...inHand.values()].filter(({ isLost }) => !isLost)
    const held = ours.map((one) => one.held)
    const kept = new Set(await jobs.extend(held, hold))
    const lost = ours.filter(({ held: { id } }) => !kept.has(id) && inHand.has(id))
    for (const one of lost) one.isLost = true
    if (lost.length === 0) return
    const names = lost.map(({ held: { kind, id } }) => `${kind} ${id}`)
    onProblem(`another process has taken up ${firstOf(MOST_NAMED, names)}, which this one held`)
  }

  function keepBeating(): void {
    if (beating) return
    beating = true
    cancelBeat = clock.after(HEARTBEAT_MS, () => {
      beat()
        .catch((error: unknown) => tell('leases could not be renewed', error))
        .finally(() => {
          beating = false
          if (inHand.size > 0) keepBeating()
        })
    })
  }

  /**
   * Renews the lease of a job while `work` runs. Errors of `work` are thrown; the job is free again when its lease
   * ends.
   */
  async function during<T>(held: Held, work: () => Promise<T>): Promise<T> {
    let finish = () => {}
    const done = new Promise<void>((resolve) => {
      finish = resolve
    })
    inHand.set(held.id, { held, done, isLost: false })
    claimed.delete(held.id)
    keepBeating()
    try {
      return await work()
    } finally {
      inHand.delete(held.id)
      finish()
    }
  }

  /**
   * Keeps this process from claiming jobs that it is about to store and hold; returns a function that ends this.
   * Between the write and the beginning of `during` they look like jobs that this process has given up.
   */
  function reserve(ids: readonly string[]): () => void {
    for (const id of ids) claimed.add(id)
    return () => {
      for (const id of ids) claimed.delete(id)
    }
  }

  async function claimBy(id: string, taken: () => Promise<Held | undefined>): Promise<Held | undefined> {
    if (inHand.has(id) || claimed.has(id)) return undefined
    claimed.add(id)
    let held: Held | undefined
    try {
      held = await taken()
    } finally {
      if (!held) claimed.delete(id)
    }
    return held
  }

  /**
   * Claims an open job and works on it `during` what follows; one that this process itself had given up can be claimed,
   * too.
   */
  const claim = (id: string, early = false) =>
    claimBy(id, () => jobs.claim(id, hold, { early, ownToo: true }))

  async function run(one: Due): Promise<void> {
    const { id } = one
    const held = await (together > 1 ? claimBy(id, () => claimWithOthers(one)) : claim(id))
    if (!held) return
    const kind = kinds[held.kind] as JobKind
    await during(held, async () => {
      try {
        await kind.run(held)
      } catch (error) {
        tell(`${held.kind} ${id} goes on later`, error)
        await jobs.release(held, pauseAfter(held.attempts, kind.longestPauseMs))
      }
    })
  }

  function leavePlace({ id, lane }: Due): void {
    begun.delete(id)
    const left = (places.get(lane) ?? 0) - 1
    if (left > 0) places.set(lane, left)
    else places.delete(lane)
  }

  async function begin(one: Due): Promise<void> {
    try {
      await run(one)
      leavePlace(one)
      wake()
    } catch (error) {
      tell(`${one.id} could not be taken up`, error)
      leavePlace(one) // another look at once would find the same job
    }
  }

  /** No lane has more places than are left free: those of a few lanes that hang are never all there are. */
  const isFull = (lane: string) =>
    (places.get(lane) ?? 0) >= Math.min(limits.aLane, limits.inAll - begun.size)

  const mayBegin = ({ id, lane }: Due) => !isFull(lane) && !begun.has(id) && !inHand.has(id)

  /** Takes the next from those that are due, and begins what may begin. */
  function beginLot(due: Due[]): Promise<void>[] {
    const lot: Promise<void>[] = []
    while (lot.length < together) {
      const one = due.shift()
      if (!one) break
      if (!mayBegin(one)) continue
      places.set(one.lane, (places.get(one.lane) ?? 0) + 1)
      const running = begin(one)
      begun.set(one.id, running)
      lot.push(running)
    }
    return lot
  }

  /** Starts jobs that are due and have a place; true when there may be more. */
  async function startDue(started: Promise<void>[]): Promise<boolean> {
    if (begun.size >= limits.inAll) return false
    const due = await jobs.due(Object.keys(kinds), [...places.keys()].filter(isFull), LOOKED_AT)
    const before = started.length
    const left = due.filter(mayBegin)
    while (left.length > 0) {
      if (next) await next()
      if (closed) return false
      started.push(...beginLot(left))
    }
    return due.length === LOOKED_AT && started.length > before
  }

  async function look(): Promise<Promise<void>[]> {
    const started: Promise<void>[] = []
    try {
      for (let more = true; more && !closed; ) more = await startDue(started)
    } catch (error) {
      tell('open work could not be looked for', error)
    }
    return started
  }

  /** Looks for work now; if it is just looking, it looks once more afterwards. */
  function wake(): void {
    if (closed || !isStarted) return
    if (looking) {
      again = true
      return
    }
    cancelLook()
    looking = look().then(() => {
      looking = undefined
      if (closed) return
      if (again) {
        again = false
        wake()
      } else cancelLook = clock.after(LOOK_EVERY_MS, wake)
    })
  }

  return {
    hold,
    during,
    reserve,
    claim,
    wake,
    has: (id: string) => inHand.has(id),
    /** Works on all jobs that are due now, and resolves when they are done. */
    async round(): Promise<void> {
      await Promise.all(await look())
    },
    /** From now on works on jobs when they are due, until `close`. */
    start(): void {
      isStarted = true
      wake()
    },
    /** Starts no more jobs; resolves when the running ones have ended. */
    async close(): Promise<void> {
      closed = true
      cancelLook()
      await looking
      await Promise.all([...begun.values(), ...[...inHand.values()].map(({ done }) => done)])
      cancelBeat()
    },
  }
}

export type Worker = ReturnType<typeof createWorker>
