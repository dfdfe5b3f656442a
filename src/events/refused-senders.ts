/**
 * How many deliveries that are refused each place looks at: of one address, and of all addresses that nothing true came from yet.
 * Beyond that they are turned away before anything is verified, so that a flood of forgeries costs less than the signatures in
 * it. What is accepted costs a sender nothing.
 */
import { LRUCache } from 'lru-cache'

const OF_ONE = { burst: 50, perSecond: 5 } // more than an agent with a wrong key sends while it learns of it
const OF_STRANGERS = { burst: 200, perSecond: 20 }
const MOST_SENDERS = 10_000

type Bucket = { tokens: number; at: number }
type Bound = typeof OF_ONE

/** Counted by size: `max` would take the memory of all at once. */
const bounded = <T extends object | true>() =>
  new LRUCache<string, T>({ maxSize: MOST_SENDERS, sizeCalculation: () => 1 })

function createBuckets({ burst, perSecond }: Bound, now: () => number) {
  const buckets = bounded<Bucket>()
  function filled(name: string): Bucket {
    const { tokens, at } = buckets.get(name) ?? { tokens: burst, at: now() }
    return { tokens: Math.min(burst, tokens + (Math.max(0, now() - at) * perSecond) / 1_000), at: now() }
  }
  return {
    wait: (name: string) => Math.ceil(Math.max(0, 1 - filled(name).tokens) / perSecond),
    add(name: string, tokens: number): void {
      const bucket = filled(name)
      buckets.set(name, { ...bucket, tokens: Math.min(burst, bucket.tokens + tokens) })
    },
  }
}

export function createRefusedSenders(now: () => number) {
  const one = createBuckets(OF_ONE, now)
  const strangers = createBuckets(OF_STRANGERS, now)
  const seen = bounded<true>()

  return {
    /**
     * Takes room for one delivery before it is looked at; seconds to wait where there is none. `giveBack` when it was not
     * refused: who sent it is no stranger at this place from then on.
     */
    take(place: string, from: string): { seconds: number; giveBack(): void } {
      const name = `${place} ${from}`
      const isStranger = !seen.has(name)
      const seconds = Math.max(one.wait(name), isStranger ? strangers.wait(place) : 0)
      if (seconds > 0) return { seconds, giveBack() {} }
      one.add(name, -1)
      if (isStranger) strangers.add(place, -1)
      return {
        seconds,
        giveBack() {
          seen.set(name, true)
          one.add(name, 1)
          if (isStranger) strangers.add(place, 1)
        },
      }
    },
  }
}
