/**
 * Works on jobs that nobody waits for, and renews the leases of those that somebody waits for. Lanes take turns: an
 * upstream whose calls hang uses up only its own few places. A job that cannot be done now is tried later, after
 * growing pauses.
 */
import type { Clock } from '../../net/clock.js'
import { StorageUnavailable } from '../database/unavailable.js'
import type { Held, Hold, Jobs } from './jobs.js'

/** How long after a process ends another one takes over its jobs, ms. */
const LEASE_MS = 10_000
const HEARTBEAT_MS = 3_000
const LOOK_EVERY_MS = 1_000
const LOOKED_AT = 256
const FIRST_PAUSE_MS = 500

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
  /** Resolves when the next job may begin. Default: at once. */
  next?(): Promise<void>
  /** Receives what an operator should know. */
  onProblem: (problem: string) => void
}

/** How long a job pauses after so many attempts, ms. */
export function pauseAfter(attempts: number, longestMs = 60_000): number {
  return Math.min(longestMs, FIRST_PAUSE_MS * 2 ** Math.min(attempts - 1, 30))
}

const PLACES = { inAll: 64, aLane: 8 }

/** The worker of one process. It takes up due jobs from `start` on; `round` does so once. */
export function createWorker(options: WorkerOptions) {
  const { jobs, clock, owner, kinds, places: limits = PLACES, next, onProblem } = options
  const hold: Hold = { owner, ms: LEASE_MS }
  const inHand = new Map<string, { held: Held; done: Promise<void> }>()
  const claimed = new Set<string>() // claimed, or about to be, and not yet worked on
  const lanes = new Map<string, string>() // of jobs that nobody waits for, by id, from just before they are claimed
  let closed = false
  let looking: Promise<void> | undefined
  let again = false
  let cancelLook = () => {}
  let cancelBeat = () => {}
  let beating = false

  function tell(what: string, error: unknown): void {
    onProblem(`${what}: ${error instanceof StorageUnavailable ? error.message : String(error)}`)
  }

  async function beat(): Promise<void> {
    const held = [...inHand.values()].map((one) => one.held)
    const kept = new Set(await jobs.extend(held, hold))
    for (const { id, kind } of held) {
      if (!kept.has(id) && inHand.has(id)) onProblem(`${kind} ${id}: another process has taken it up`)
    }
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
    inHand.set(held.id, { held, done })
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

  /**
   * Claims an open job and works on it `during` what follows; one that this process itself had given up can be claimed,
   * too.
   */
  async function claim(id: string, early = false): Promise<Held | undefined> {
    if (inHand.has(id) || claimed.has(id)) return undefined
    claimed.add(id)
    let held: Held | undefined
    try {
      held = await jobs.claim(id, hold, { early, ownToo: true })
    } finally {
      if (!held) claimed.delete(id)
    }
    return held
  }

  async function run(id: string): Promise<void> {
    const held = await claim(id)
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

  /** Jobs that somebody waits for take no place: their requests are bounded elsewhere. */
  function takenPlaces(): Map<string, number> {
    const taken = new Map<string, number>()
    for (const lane of lanes.values()) taken.set(lane, (taken.get(lane) ?? 0) + 1)
    return taken
  }

  function begin(id: string, lane: string): Promise<void> {
    lanes.set(id, lane)
    return run(id)
      .then(
        () => true,
        (error: unknown) => tell(`${id} could not be taken up`, error),
      )
      .then((wasRun) => {
        lanes.delete(id)
        if (wasRun) wake() // after a failed claim, another look at once would find the same job
      })
  }

  /** Starts jobs that are due and have a place; true when there may be more. */
  async function startDue(started: Promise<void>[]): Promise<boolean> {
    const taken = takenPlaces()
    const full = [...taken].filter(([, count]) => count >= limits.aLane).map(([lane]) => lane)
    if (lanes.size >= limits.inAll) return false
    const due = await jobs.due(Object.keys(kinds), full, LOOKED_AT)
    const before = started.length
    for (const { id, lane } of due) {
      const there = taken.get(lane) ?? 0
      if (there >= limits.aLane || lanes.size >= limits.inAll || lanes.has(id) || inHand.has(id)) continue
      if (next) await next()
      if (closed) return false
      taken.set(lane, there + 1)
      started.push(begin(id, lane))
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
  let isStarted = false

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
      await Promise.all([...inHand.values()].map(({ done }) => done))
      cancelBeat()
    },
  }
}

export type Worker = ReturnType<typeof createWorker>
