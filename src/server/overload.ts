/**
 * When to say 503 instead of falling over: the event loop is late all the time, or too many slow calls are under way.
 * One long pause is no overload, so the median of a window is judged, not its maximum.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'

const WINDOW_MS = 500
const LATE_MS = 250
const RESOLUTION_MS = 20
const MAX_PENDING = 2_000

export type Overload = {
  isOverloaded(): boolean
  /** Counts a call that could not be answered at once. */
  track<T>(pending: Promise<T>): Promise<T>
  pending(): number
  close(): void
}

export function createOverload({ maxPending = MAX_PENDING }: { maxPending?: number } = {}): Overload {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  let late = false
  let count = 0
  delay.enable()
  const timer = setInterval(() => {
    late = delay.percentile(50) / 1e6 > LATE_MS
    delay.reset()
  }, WINDOW_MS)
  timer.unref()

  return {
    isOverloaded: () => late || count >= maxPending,
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
