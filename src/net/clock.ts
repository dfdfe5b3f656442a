/**
 * Time as an argument, so that tests can advance it and do not wait: the clock, also one for all processes on a storage, a
 * pause, a deadline, and the wait before another try. After a success that is the schedule. After failures one tries soon and
 * then at growing intervals, but within a minute whatever the upstream asked for, so that one that recovered is noticed
 * (docs/configuration.md).
 */

const LONGEST_TIMER_MS = 2 ** 31 - 1 // 24.8 days; beyond it setTimeout fires at once
const FIRST_WAIT_MS = 1_000
const LONGEST_WAIT_MS = 60_000
const SHORTEST_CAP_MS = 5_000 // a short schedule must not become a flood of retries
const CAP_PER_REFRESH = 10
const MOST_DOUBLINGS = 30 // of any wait: it is at its longest before, and the number stays finite
const JITTER = 0.1
const TOLERATED_MS = 1_000 // by which a clock may be off the one that all share
const ASK_EVERY_MS = 10_000 // that one

export type Clock = {
  /** Milliseconds since the epoch. */
  now(): number
  /** Runs `task` once after `ms`; the returned function cancels it. Timers never keep the process alive. */
  after(ms: number, task: () => void): () => void
}

export const systemClock: Clock = {
  now: Date.now,
  after(ms, task) {
    let timer: NodeJS.Timeout
    const wait = (left: number): void => {
      const part = Math.min(Math.max(0, left), LONGEST_TIMER_MS)
      timer = setTimeout(() => (left > part ? wait(left - part) : task()), part)
      timer.unref()
    }
    wait(ms)
    return () => clearTimeout(timer)
  },
}

type SharedTimeOptions = {
  /** Of this process. */
  own: Clock
  /** Receives what an operator should know. */
  onProblem(problem: string): void
}

/**
 * One time for all processes on a storage: the database's. Their own clocks may be wrong, and what one writes down as an instant
 * another compares with its own. A clock that is kept in step, as by NTP, stays as it is: differences below a second and the
 * duration of the question are ignored. Until the first answer its clock is this process's own.
 */
export function createSharedTime({ own, onProblem }: SharedTimeOptions) {
  let aheadMs = 0
  let cancel = () => {}
  let closed = false

  const clock: Clock = { now: () => own.now() + aheadMs, after: own.after }

  /** Asks the database once. Rejects when it does not answer. */
  async function look(databaseNow: () => Promise<number>): Promise<void> {
    const askedAt = own.now()
    const theirs = await databaseNow()
    const tookMs = own.now() - askedAt
    const found = Math.round(theirs - askedAt - tookMs / 2)
    if (tookMs < 0 || Math.abs(found - aheadMs) <= TOLERATED_MS + tookMs / 2) return
    const how = found < 0 ? 'ahead of' : 'behind'
    onProblem(`this process's clock is ${Math.abs(found)} ms ${how} the database's, whose time counts`)
    aheadMs = found
  }

  return {
    clock,
    /** Follows it from now on; resolves after the first look. Rejects when that had no answer. */
    async follow(databaseNow: () => Promise<number>): Promise<void> {
      const later = () => {
        if (!closed) cancel = own.after(ASK_EVERY_MS, again)
      }
      const again = () =>
        void look(databaseNow)
          .catch(() => {}) // the storage tells of its own troubles
          .then(later)
      await look(databaseNow)
      later()
    },
    close(): void {
      closed = true
      cancel()
    },
  }
}

type Waiting = { ends: Set<() => void>; tell(): void }

/**
 * Who waits for a signal: all calls of an upstream share one, and each may wait in several ways. One listener on it is for all of
 * them, so that those that Node counts, and warns of, are no more than who listens for a reason of its own.
 */
const waitingFor = new WeakMap<AbortSignal, Waiting>()

function listenTo(signal: AbortSignal): Waiting {
  const ends = new Set<() => void>()
  const tell = () => {
    for (const end of ends) end()
  }
  const waiting = { ends, tell }
  waitingFor.set(signal, waiting)
  signal.addEventListener('abort', tell, { once: true })
  return waiting
}

/** Calls `end` when the signal goes off; nothing, where it has already. The returned function cancels it. */
function onAbort(signal: AbortSignal | undefined, end: () => void): () => void {
  if (!signal) return () => {}
  const { ends, tell } = waitingFor.get(signal) ?? listenTo(signal)
  ends.add(end)
  return () => {
    if (!ends.delete(end) || ends.size > 0) return
    waitingFor.delete(signal)
    signal.removeEventListener('abort', tell)
  }
}

/** Resolves after `ms`, or as soon as the signal goes off. */
export function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      cancel()
      leave()
      resolve()
    }
    const cancel = clock.after(Math.max(0, ms), end)
    const leave = onAbort(signal, end)
    if (signal?.aborted) end()
  })
}

type Limits = {
  /** The time limit of the work, ms. */
  timeoutMs: number
  /** The caller's abort signal. */
  signal?: AbortSignal | undefined
  /** Default: the system's time, with a timer that keeps the process alive, because somebody waits for its outcome. */
  clock?: Pick<Clock, 'after'>
}

export type End = 'timeout' | 'aborted'

export type Deadline = {
  /** Aborts at the end; made when it is asked for. No getter: see docs/decisions.md#what-outlives-a-request. */
  signal(): AbortSignal
  /** Resolves at the end with its cause; never when `release` comes first. */
  readonly ended: Promise<End>
  /** What ended the work; undefined before the end. */
  why(): End | undefined
  /** The work is done: removes the timer and the listener. */
  release(): void
}

const holding: Pick<Clock, 'after'> = {
  after(ms, task) {
    const timer = setTimeout(task, ms)
    return () => clearTimeout(timer)
  },
}

/**
 * One end for work that has a time limit and that its caller may abort. `AbortSignal.timeout` is not used because its
 * timer cannot be cancelled: thousands of answered requests would stay in memory until their limits pass.
 */
export function createDeadline({ timeoutMs, signal, clock = holding }: Limits): Deadline {
  let controller: AbortController | undefined // most ask for no signal, and one costs more than the rest
  let cause: End | undefined
  let tell: (end: End) => void = () => {}
  const ended = new Promise<End>((resolve) => {
    tell = resolve
  })
  const end = (by: End) => {
    cause ??= by
    tell(cause)
    controller?.abort()
  }
  const cancel = clock.after(timeoutMs, () => end('timeout'))
  const abort = () => end('aborted')
  const leave = onAbort(signal, abort)
  if (signal?.aborted) abort()
  return {
    signal() {
      controller ??= new AbortController()
      if (cause) controller.abort()
      return controller.signal
    },
    ended,
    why: () => cause,
    release() {
      cancel()
      leave()
    },
  }
}

/** The result of `pending`, or `late(end)` when the limit or the abort comes first. `pending` itself continues. */
export async function within<T, U>(
  pending: Promise<T>,
  limits: Limits,
  late: (end: End) => U,
): Promise<T | U> {
  const deadline = createDeadline(limits)
  try {
    return await Promise.race([pending, deadline.ended.then(late)])
  } finally {
    deadline.release()
  }
}

type BackoffOptions = {
  /** Failures in a row, at least 1. */
  failures: number
  /** The interval after a success. A short one also shortens the first waits after a failure. */
  refreshMs: number
  random(): number
  /** The wait that the agent asked for. */
  retryAfterMs?: number | undefined
}

/** The interval, varied by up to a tenth either way, so that many upstreams are not due at one moment. */
export function jittered(ms: number, random: () => number): number {
  return ms * (1 - JITTER + 2 * JITTER * random())
}

/** A wait that is `firstMs` after one failure, twice as long after each further one, and `longestMs` at most. */
export function doubledMs(failures: number, firstMs: number, longestMs: number): number {
  return Math.min(longestMs, firstMs * 2 ** Math.min(failures - 1, MOST_DOUBLINGS))
}

/** The wait before the next attempt, ms; a minute at most, whatever the upstream asked for. */
export function backoffMs({ failures, refreshMs, random, retryAfterMs = 0 }: BackoffOptions): number {
  const first = Math.min(FIRST_WAIT_MS, refreshMs)
  const cap = Math.min(LONGEST_WAIT_MS, Math.max(SHORTEST_CAP_MS, CAP_PER_REFRESH * refreshMs))
  const wait = doubledMs(failures, first, cap) * (0.5 + 0.5 * random())
  return Math.max(wait, Math.min(retryAfterMs, LONGEST_WAIT_MS))
}
