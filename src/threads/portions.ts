/**
 * Work in portions. Most answers take microseconds; one that takes long stops now and then, so that whoever drives it can
 * let others be served in between.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'

export type InPortions<T> = Generator<undefined, T>

/** Signals looked at between two stops: about a millisecond. */
export const PORTION = 8_192

/** How much was done since the last stop; the unit is a signal looked at. */
export type Meter = {
  did(units: number): void
  /** After a portion: it is time to stop. Then a new portion begins. */
  isDue(): boolean
}

export function createMeter(): Meter {
  let done = 0
  return {
    did(units) {
      done += units
    },
    isDue() {
      if (done < PORTION) return false
      done = 0
      return true
    },
  }
}

/** Runs to the end at once. */
export function drained<T>(steps: InPortions<T>): T {
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}

/** Gives what the work comes to. */
export async function inTurns<T>(work: Iterator<unknown, T>): Promise<T> {
  for (;;) {
    await nextTurn()
    const step = work.next()
    if (step.done) return step.value
  }
}
