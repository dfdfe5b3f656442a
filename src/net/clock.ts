/** Time as an argument, so that whatever waits can be tested without waiting. */
export type Clock = {
  /** Milliseconds since the epoch. */
  now(): number
  /** Runs `task` once after `ms`; the returned function cancels it. Timers never keep the process alive. */
  after(ms: number, task: () => void): () => void
}

const LONGEST_MS = 2 ** 31 - 1 // beyond it setTimeout fires at once

export const systemClock: Clock = {
  now: Date.now,
  after(ms, task) {
    const timer = setTimeout(task, Math.min(Math.max(0, ms), LONGEST_MS))
    timer.unref()
    return () => clearTimeout(timer)
  },
}
