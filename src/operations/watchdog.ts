/**
 * Measures how long the serving thread is blocked and answers nothing. A timer that fires late shows it; work in other
 * threads does not count.
 */
import { Gauge, Histogram, type Registry } from 'prom-client'

const EVERY_MS = 10
const NOTABLE_MS = 20 // shorter delays come from the timer's own precision
const STOP_SECONDS = [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** Measures from now on, into metrics of `registry`, until it is closed. */
export function createWatchdog(registry: Registry) {
  let last = performance.now()
  let longestMs = 0
  const stops = new Histogram({
    name: 'tributary_loop_stop_seconds',
    help: 'Stops of the thread that serves, those of 20 ms and more',
    buckets: STOP_SECONDS,
    registers: [registry],
  })
  new Gauge({
    name: 'tributary_loop_longest_stop_seconds',
    help: 'The longest of them since the start',
    registers: [registry],
    collect() {
      this.set(longestMs / 1_000)
    },
  })
  const timer = setInterval(() => {
    const now = performance.now()
    const stopMs = now - last - EVERY_MS
    last = now
    if (stopMs > longestMs) longestMs = stopMs
    if (stopMs >= NOTABLE_MS) stops.observe(stopMs / 1_000)
  }, EVERY_MS)
  timer.unref()

  return { close: () => clearInterval(timer) }
}
