/**
 * How many deliveries that are refused each sender has looked at. Beyond that they are turned away before anything is verified, so
 * that a flood of forgeries costs less than the signatures in it. What is accepted costs a sender nothing.
 */
import { LRUCache } from 'lru-cache'

const BURST = 50 // more than an agent with a wrong key sends while it learns of it
const PER_SECOND = 5
const MOST_SENDERS = 10_000

type Bucket = { tokens: number; at: number }

export function createRefusedSenders(now: () => number) {
  // counted by size: `max` would take the memory of all at once
  const buckets = new LRUCache<string, Bucket>({ maxSize: MOST_SENDERS, sizeCalculation: () => 1 })

  return {
    /** Takes one place of the sender before its delivery is looked at; seconds to wait where it has none left. */
    take(sender: string): number {
      const { tokens, at } = buckets.get(sender) ?? { tokens: BURST, at: now() }
      const filled = Math.min(BURST, tokens + (Math.max(0, now() - at) * PER_SECOND) / 1_000)
      buckets.set(sender, { tokens: filled >= 1 ? filled - 1 : filled, at: now() })
      return filled >= 1 ? 0 : Math.max(1, Math.ceil((1 - filled) / PER_SECOND))
    },
    /** The delivery was not refused. */
    giveBack(sender: string): void {
      const bucket = buckets.get(sender)
      if (bucket) bucket.tokens = Math.min(BURST, bucket.tokens + 1)
    },
  }
}
