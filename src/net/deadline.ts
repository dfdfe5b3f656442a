/**
 * One end for work that has a time limit and that its caller may abort. `AbortSignal.timeout` is not used because its
 * timer cannot be cancelled: thousands of answered requests would stay in memory until their limits pass.
 */
import type { Clock } from './clock.js'

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
