/** Whether the server has more to do than it can. */
import { monitorEventLoopDelay } from 'node:perf_hooks'

const WINDOW_MS = 500 // of the event loop's lateness; the server is overloaded after LATE_WINDOWS late ones
const LATE_MS = 250
const LATE_WINDOWS = 4
const RESOLUTION_MS = 20
const MAX_PENDING = 2_000

export type Overload = {
  isOverloaded(): boolean
  /** Counts a call that could not be answered at once. */
  track<T>(pending: Promise<T>): Promise<T>
  pending(): number
  close(): void
}

/**
 * When to answer 503: the event loop is late all the time, or too many slow calls are under way. One pause, however long, is
 * no overload; several windows in a row with a late median are.
 */
export function createOverload({ maxPending = MAX_PENDING }: { maxPending?: number } = {}): Overload {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  let lateWindows = 0
  let count = 0
  delay.enable()
  const timer = setInterval(() => {
    lateWindows = delay.percentile(50) / 1e6 > LATE_MS ? lateWindows + 1 : 0
    delay.reset()
  }, WINDOW_MS)
  timer.unref()

  return {
    isOverloaded: () => lateWindows >= LATE_WINDOWS || count >= maxPending,
    track(pending) {
      count += 1
      return pending.finally(() => {
        count -= 1
      })
    },
    pending: () => count,
    close() {
      clearInterval(timer)
      delay.disable()
    },
  }
}
