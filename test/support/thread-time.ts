/** What the main thread of a process has computed, however busy the machine is; Node 20 has no call for it. */
import { readFileSync } from 'node:fs'
import { collect } from './collect.js'

/** Ms; 0 where the system does not tell (all but Linux). */
export function threadMs(): number {
  try {
    return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'latin1').split(' ', 1)[0]) / 1e6
  } catch {
    return 0
  }
}

/**
 * Watches for how long the main thread computes without serving anybody, from now on. What others left in the heap is collected
 * before, not meanwhile.
 */
export function watchStops() {
  collect()
  let longest = 0
  let last = threadMs()
  const look = () => {
    const now = threadMs()
    longest = Math.max(longest, now - last)
    last = now
  }
  const timer = setInterval(look, 1)
  return {
    /** The longest stop until now, ms; watches on from anew. */
    longest(): number {
      look()
      const found = longest
      longest = 0
      return found
    },
    end: () => clearInterval(timer),
  }
}
