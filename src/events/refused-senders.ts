/**
 * How many deliveries that are refused each place looks at: of one address, and of all addresses that nothing true came from yet.
 * Beyond that they are turned away before anything is verified, so that a flood of forgeries costs less than the signatures in
 * it. What is accepted costs a sender nothing.
 */
import { LRUCache } from 'lru-cache'
import { createBuckets } from '../net/buckets.js'

const OF_ONE = { burst: 50, perSecond: 5 } // more than an agent with a wrong key sends while it learns of it
const OF_STRANGERS = { burst: 200, perSecond: 20 }
const MOST_SENDERS = 10_000

export function createRefusedSenders(now: () => number) {
  const one = createBuckets(MOST_SENDERS)
  const strangers = createBuckets(MOST_SENDERS)
  // counted by size: `max` would take the memory of all at once
  const seen = new LRUCache<string, true>({ maxSize: MOST_SENDERS, sizeCalculation: () => 1 })

  return {
    /**
     * Takes room for one delivery before it is looked at; seconds to wait where there is none. `giveBack` when it was not
     * refused: who sent it is no stranger at this place from then on.
     */
    take(place: string, from: string): { seconds: number; giveBack(): void } {
      const name = `${place} ${from}`
      const isStranger = !seen.has(name)
      const seconds = Math.max(
        one.wait(name, OF_ONE, now()),
        isStranger ? strangers.wait(place, OF_STRANGERS, now()) : 0,
      )
      if (seconds > 0) return { seconds, giveBack() {} }
      one.add(name, -1, OF_ONE, now())
      if (isStranger) strangers.add(place, -1, OF_STRANGERS, now())
      return {
        seconds,
        giveBack() {
          seen.set(name, true)
          one.add(name, 1, OF_ONE, now())
          if (isStranger) strangers.add(place, 1, OF_STRANGERS, now())
        },
      }
    },
  }
}
