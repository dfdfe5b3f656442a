/** One timer for all providers: it wakes who looks at every one of them, at the first instant at which one of them is due. */
import type { Clock } from '../../net/clock.js'

const MIN_PAUSE_MS = 100 // thousands are looked at each time

export function createAlarm(clock: Clock, wake: () => void) {
  let wakeAt = Number.POSITIVE_INFINITY
  let cancel = () => {}
  let isClosed = false

  function ring(): void {
    wakeAt = Number.POSITIVE_INFINITY
    wake()
  }

  return {
    /** Wakes at this instant, ms since the epoch, if it would not wake before. */
    wakeBy(dueAt: number): void {
      const at = Math.max(dueAt, clock.now() + MIN_PAUSE_MS)
      if (at >= wakeAt || isClosed) return
      cancel()
      wakeAt = at
      cancel = clock.after(at - clock.now(), ring)
    },
    close(): void {
      isClosed = true
      cancel()
    },
  }
}
