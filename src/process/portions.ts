/**
 * Work that takes long, on the thread that serves. Most answers take microseconds; such work is done in portions and stops now
 * and then, so that others are served in between (portion-turns.ts).
 */

const ROW_UNITS = 160
const ROW_BYTES_A_UNIT = 5

export type InPortions<T> = Generator<undefined, T>

/** Signals to look at between two stops: about a millisecond. */
export const PORTION = 8_192

/** Work done since the last stop, counted in signals looked at. */
export type Meter = {
  did(units: number): void
  /** Whether a portion is done and it is time to stop. If so, a new portion begins. */
  isDue(): boolean
}

/** A meter before its first portion. */
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

/** The cost of parsing, merging or writing a row of so many bytes: 20 microseconds, and a millisecond for 40 KB. */
export const rowUnits = (bytes: number) => ROW_UNITS + bytes / ROW_BYTES_A_UNIT

/** Runs the work to its end without stopping. */
export function drained<T>(steps: InPortions<T>): T {
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}
