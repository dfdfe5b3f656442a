/** Time as an argument, so that tests can advance it and do not wait. */
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
