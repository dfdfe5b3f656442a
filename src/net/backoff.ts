/**
 * Says when to try again. After a success, on the schedule. After failures, soon and then at growing intervals, but
 * within a minute whatever the upstream asked for, so that one that recovered is noticed (docs/configuration.md).
 */
const FIRST_MS = 1_000
const LONGEST_MS = 60_000
const SHORTEST_CAP_MS = 5_000 // a short schedule must not become a flood of retries
const CAP_PER_REFRESH = 10
const JITTER = 0.1

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

/** The wait before the next attempt, ms; a minute at most. */
export function backoffMs({ failures, refreshMs, random, retryAfterMs = 0 }: BackoffOptions): number {
  const first = Math.min(FIRST_MS, refreshMs)
  const cap = Math.min(LONGEST_MS, Math.max(SHORTEST_CAP_MS, CAP_PER_REFRESH * refreshMs))
  const exponential = Math.min(cap, first * 2 ** Math.min(failures - 1, 16))
  const wait = exponential * (0.5 + 0.5 * random())
  return Math.max(wait, Math.min(retryAfterMs, LONGEST_MS))
}
