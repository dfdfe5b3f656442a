/**
 * When a reading begins that somebody asks for, beside those on schedule: at once, and later when another was asked for
 * just before. Where much is activated, or providers' files change all the time, a reading of all rows after each would
 * cost more than they do.
 */
import type { Clock } from '../../net/clock.js'

const EVERY_MS = 1_000
/** From the second on that was asked for within a minute, readings take a tenth of the time, or one is begun a minute. */
const REST = 9
const MOST_REST_MS = 60_000

export function createHurry(clock: Clock) {
  let dueAt = Number.NEGATIVE_INFINITY // of the latest that was asked for
  let restUntil = Number.NEGATIVE_INFINITY
  let endedAt = Number.NEGATIVE_INFINITY // of the latest that was made

  return {
    /** When the reading that is asked for now is due; undefined when one is coming that serves as well. */
    asked(): number | undefined {
      const now = clock.now()
      if (dueAt > now && dueAt <= now + EVERY_MS + MOST_REST_MS) return undefined
      dueAt = Math.max(now, Math.min(dueAt, now) + EVERY_MS, restUntil)
      return dueAt
    },
    /** When the reading that an operator orders is due: now, whatever was asked for before. */
    ordered(): number {
      restUntil = Number.NEGATIVE_INFINITY
      dueAt = clock.now()
      return dueAt
    },
    /** When the latest that was asked for may begin. */
    dueAt: () => Math.max(dueAt, restUntil),
    /** One that was asked for has been made, and took so long. */
    made(tookMs: number): void {
      const now = clock.now()
      if (now - endedAt < MOST_REST_MS) restUntil = now + Math.min(REST * tookMs, MOST_REST_MS)
      endedAt = now
    },
  }
}
