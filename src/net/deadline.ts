/**
 * One end for work that may take so long and that its caller may give up. `AbortSignal.timeout` would do, but its timer cannot be
 * taken back: thousands of answered requests would each be held until their time is up.
 */
import type { Clock } from './clock.js'

type Limits = {
  /** Time for the work, ms. */
  timeoutMs: number
  /** The caller's will. */
  signal?: AbortSignal | undefined
  /** Default: the system's time, with a timer that keeps the process alive: somebody waits for what it ends. */
  clock?: Pick<Clock, 'after'>
}

export type End = 'timeout' | 'aborted'

type Deadline = {
  /** Goes off at the end. */
  readonly signal: AbortSignal
  /** Resolves at the end, with what it was; never when the work is done before. */
  readonly ended: Promise<End>
  /** What ended it; undefined while there is time. */
  why(): End | undefined
  /** The work is done: nothing is waited for any more. */
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

/** What `pending` comes to, or `late` of what ended the wait first. `pending` goes on. */
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
