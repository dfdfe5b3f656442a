/** Time as an argument, so that tests can advance it and do not wait: the clock, a pause, a deadline. */
export type Clock = {
  /** Milliseconds since the epoch. */
  now(): number
  /** Runs `task` once after `ms`; the returned function cancels it. Timers never keep the process alive. */
  after(ms: number, task: () => void): () => void
}

const LONGEST_MS = 2 ** 31 - 1 // 24.8 days; beyond it setTimeout fires at once

export const systemClock: Clock = {
  now: Date.now,
  after(ms, task) {
    let timer: NodeJS.Timeout
    const wait = (left: number): void => {
      const part = Math.min(Math.max(0, left), LONGEST_MS)
      timer = setTimeout(() => (left > part ? wait(left - part) : task()), part)
      timer.unref()
    }
    wait(ms)
    return () => clearTimeout(timer)
  },
}

/** Resolves after `ms`, or as soon as the signal goes off. */
export function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      cancel()
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const cancel = clock.after(Math.max(0, ms), end)
    signal?.addEventListener('abort', end)
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

type Deadline = {
  /** Aborts at the end. */
  readonly signal: AbortSignal
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
  const controller = new AbortController()
  let cause: End | undefined
  let tell: (end: End) => void = () => {}
  const ended = new Promise<End>((resolve) => {
    tell = resolve
  })
  const end = (by: End) => {
    cause ??= by
    tell(cause)
    controller.abort()
  }
  const cancel = clock.after(timeoutMs, () => end('timeout'))
  const onAbort = () => end('aborted')
  signal?.addEventListener('abort', onAbort, { once: true })
  if (signal?.aborted) onAbort()
  return {
    signal: controller.signal,
    ended,
    why: () => cause,
    release() {
      cancel()
      signal?.removeEventListener('abort', onAbort)
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
