/**
 * Work in portions. Most answers take microseconds; one that takes long stops now and then, so that whoever drives it can
 * let others be served in between.
 */
/** Signals looked at between two stops: about a millisecond. */
export const PORTION = 8_192

export type Steps<T> = Generator<undefined, T>

/** Runs to the end at once. */
export function drained<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}
