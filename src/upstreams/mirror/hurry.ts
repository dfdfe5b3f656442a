/** When a reading of a scope begins that somebody asked for besides the scheduled ones. */
import type { Clock } from '../../net/clock.js'

const EVERY_MS = 1_000 // readings that are asked for begin at most once in this time

/**
 * When readings are asked for within a minute of each other, from the second on they may take a tenth of the time, or
 * begin once a minute.
 */
const REST = 9
const MOST_REST_MS = 60_000

/** How soon a scope is to be read again. */
export type Hurry = 'soon' | 'whole'

/**
 * When a reading begins that somebody asked for: at once, or later when there was another just before. When callers activate
 * much, or providers' files change all the time, a complete reading after each change would cost more than it brings.
 */
export function createHurry(clock: Clock) {
  let dueAt = Number.NEGATIVE_INFINITY // of the latest request
  let restUntil = Number.NEGATIVE_INFINITY
  let endedAt = Number.NEGATIVE_INFINITY // of the latest such reading

  return {
    /** When the requested reading is due; undefined when one that is already coming serves as well. */
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
    /** A reading begins, for whatever reason: it serves whoever asked so far. Gives its moment. */
    begun(): number {
      const now = clock.now()
      dueAt = Math.min(dueAt, now)
      return now
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
