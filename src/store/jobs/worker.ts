/**
 * Works on jobs that nobody waits for, and keeps hold of those that somebody does. Lanes take turns: one upstream whose
 * calls hang has its few places and no more. What a job could not do now it does later, each time after a longer pause.
 */
import type { Clock } from '../../net/clock.js'
import { StorageUnavailable } from '../database/unavailable.js'
import type { Held, Hold, Jobs } from './jobs.js'

/** Another process takes up what a dead one held after this, ms. */
const LEASE_MS = 15_000
const HEARTBEAT_MS = 5_000
const LOOK_EVERY_MS = 1_000
const LOOKED_AT = 256
const FIRST_PAUSE_MS = 500

type JobKind = {
  /** Ends the job or releases it; what it leaves held is released after a pause. */
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
  /** Jobs worked on at once, in all and of one lane. */
  places?: { inAll: number; aLane: number }
  /** Told of what an operator should know. */
  onProblem: (problem: string) => void
}

/** How long a job rests after so many attempts, ms. */
export function pauseAfter(attempts: number, longestMs = 60_000): number {
  return Math.min(longestMs, FIRST_PAUSE_MS * 2 ** Math.min(attempts - 1, 30))
}

const PLACES = { inAll: 64, aLane: 8 }

export function createWorker(options: WorkerOptions) {
  const { jobs, clock, owner, kinds, places: limits = PLACES, onProblem } = options
  const hold: Hold = { owner, ms: LEASE_MS }
  const inHand = new Map<string, { held: Held; done: Promise<void> }>()
  const claimed = new Set<string>() // or about to be, and not in hand yet
  const lanes = new Map<string, string>() // of jobs that nobody waits for, by id, from before they are claimed
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

  /** Keeps hold of a job while `work` goes on. What it throws is thrown; the job is free again when its lease ends. */
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
   * Keeps this process from claiming jobs that it is about to write down and hold; gives how to end that. From when they are
   * written until they are worked on `during` what follows they would look like some that it had let go of.
   */
  function reserve(ids: readonly string[]): () => void {
    for (const id of ids) claimed.add(id)
    return () => {
      for (const id of ids) claimed.delete(id)
    }
  }

  /** An open job to be worked on `during` what follows; one of its own that this process had let go of is no obstacle. */
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

  /** Those that somebody waits for take none: they have the places of their requests. */
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
        if (wasRun) wake() // another look at once would find the one that could not be taken up
      })
  }

  /** Starts what is due and has a place; true when there may be more. */
  async function startDue(started: Promise<void>[]): Promise<boolean> {
    const taken = takenPlaces()
    const full = [...taken].filter(([, count]) => count >= limits.aLane).map(([lane]) => lane)
    if (lanes.size >= limits.inAll) return false
    const due = await jobs.due(Object.keys(kinds), full, LOOKED_AT)
    const before = started.length
    for (const { id, lane } of due) {
      const there = taken.get(lane) ?? 0
      if (there >= limits.aLane || lanes.size >= limits.inAll || lanes.has(id) || inHand.has(id)) continue
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

  /** Looks for work now, or once more when it is just looking. */
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
    /** Works on what is due now, and resolves when that is done. */
    async round(): Promise<void> {
      await Promise.all(await look())
    },
    /** Takes up what is due from now on, until `close`. */
    start(): void {
      isStarted = true
      wake()
    },
    /** Takes up nothing more; resolves when what is in hand has ended. */
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
