/**
 * When to try again: after success on the schedule, after failure soon and then ever later, but never so late that a
 * recovered upstream waits longer than a minute, whatever it asked for while it was in trouble (docs/configuration.md).
 */
const FIRST_MS = 1_000
const LONGEST_MS = 60_000
const SHORTEST_CAP_MS = 5_000 // a fast schedule asks for a fast return, not for a storm
const CAP_PER_REFRESH = 10
const JITTER = 0.1

type BackoffOptions = {
  /** Failures in a row, at least 1. */
  failures: number
  /** The schedule after success: a short one also shortens the first waits. */
  refreshMs: number
  random(): number
  /** What the agent asked for. */
  retryAfterMs?: number | undefined
}

/** A schedule spread by a tenth either way, so that many upstreams never come due together. */
export function jittered(ms: number, random: () => number): number {
  return ms * (1 - JITTER + 2 * JITTER * random())
}

export function backoffMs({ failures, refreshMs, random, retryAfterMs = 0 }: BackoffOptions): number {
  const first = Math.min(FIRST_MS, refreshMs)
  const cap = Math.min(LONGEST_MS, Math.max(SHORTEST_CAP_MS, CAP_PER_REFRESH * refreshMs))
  const exponential = Math.min(cap, first * 2 ** Math.min(failures - 1, 16))
  const wait = exponential * (0.5 + 0.5 * random())
  return Math.max(wait, Math.min(retryAfterMs, LONGEST_MS))
}
