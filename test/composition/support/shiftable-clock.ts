import { type Clock, systemClock } from '../../../src/net/clock.js'

/** Real time that can be moved on: what is due then runs at once. `stands`: time that only goes on when it is moved. */
export function shiftableClock({ stands = false } = {}): { clock: Clock; shift(ms: number): void } {
  let offset = 0
  const pending = new Set<{ at: number; run: () => void; cancel: () => void }>()
  const begun = systemClock.now()
  const now = () => (stands ? begun : systemClock.now()) + offset
  const timer: Clock['after'] = stands ? () => () => {} : systemClock.after
  const clock: Clock = {
    now,
    after(ms, task) {
      const run = () => {
        pending.delete(one)
        task()
      }
      const one = { at: now() + Math.max(0, ms), run, cancel: timer(ms, run) }
      pending.add(one)
      return () => {
        pending.delete(one)
        one.cancel()
      }
    },
  }
  return {
    clock,
    shift(ms) {
      offset += ms
      for (const one of [...pending].sort((a, b) => a.at - b.at)) {
        if (!pending.has(one)) continue // one that ran before has cancelled it
        one.cancel()
        if (one.at <= now()) one.run()
        else one.cancel = timer(one.at - now(), one.run)
      }
    },
  }
}
