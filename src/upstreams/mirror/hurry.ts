/** Readings besides the scheduled ones: when one begins that somebody asked for, and which have to be complete. */
import type { Clock } from '../../net/clock.js'
import type { MirrorOutcome } from './mirror.js'
import type { Key } from './scope-setting.js'
import type { SliceStore } from './slice-store.js'

const EVERY_MS = 1_000
/**
 * When readings are asked for within a minute of each other, from the second on they may take a tenth of the time, or
 * begin once a minute.
 */
const REST = 9
const MOST_REST_MS = 60_000

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

type WholeReadingOptions = {
  store: Pick<SliceStore, 'distrust' | 'trust'>
  key(): Key
}

/**
 * Complete readings, whatever a token says: needed when a page contradicts its token, or when an operator asks. A request stands
 * until a reading has succeeded that began after it, in this process or another.
 */
export function createWholeReading({ store, key }: WholeReadingOptions) {
  let calls = 0
  let answered = 0

  function call(): void {
    calls += 1
    store.distrust(key())
  }

  /** Runs one reading; `refresh` is told whether it must be complete. */
  async function read(refresh: (whole: boolean) => Promise<MirrorOutcome>): Promise<MirrorOutcome> {
    const known = calls
    const outcome = await refresh(known > answered)
    if (outcome.kind === 'failed') {
      if (outcome.contradicted) call()
      return outcome
    }
    answered = known
    if (answered === calls) store.trust(key())
    return outcome
  }

  return { call, read }
}
