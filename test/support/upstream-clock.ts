/** A clock that a test moves by hand: due tasks run in order, and what they start is given its turn. */
import type { Clock } from '../../src/net/clock.js'

export function createManualClock(start = 1_800_000_000_000) {
  let now = start
  const tasks = new Set<{ at: number; run: () => void }>()

  const clock: Clock = {
    now: () => now,
    after(ms, run) {
      const task = { at: now + Math.max(0, ms), run }
      tasks.add(task)
      return () => tasks.delete(task)
    },
  }

  return {
    clock,
    /** Time until the next task, or undefined when nothing waits. */
    next(): number | undefined {
      const times = [...tasks].map(({ at }) => at - now)
      return times.length > 0 ? Math.min(...times) : undefined
    },
    advance(ms: number): void {
      const end = now + ms
      for (;;) {
        const due = [...tasks].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0]
        if (!due) break
        tasks.delete(due)
        now = Math.max(now, due.at)
        due.run()
      }
      now = end
    },
  }
}
