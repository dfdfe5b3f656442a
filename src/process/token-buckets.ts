/** Token buckets: requests, of which each name has so many a second. */
import { createRecent } from './memory.js'

/** How fast a bucket fills, and how much it holds. */
export type Rate = { perSecond: number; burst: number }

/** A name that is not held has a full bucket, and one that is dropped starts with a full one again. All times are ms. */
type Bucket = { tokens: number; at: number }

/** Whole seconds until there is a token; 0 when there is one. */
function secondsUntil({ tokens }: Bucket, { perSecond }: Rate): number {
  return tokens >= 1 ? 0 : Math.ceil((1 - tokens) / perSecond)
}

/** Token buckets by name, `most` in all: how often each may ask. */
export function createBuckets(most: number) {
  const buckets = createRecent<Bucket>(most)

  /** As it is now; a full one is not kept. */
  function filled(name: string, { perSecond, burst }: Rate, now: number): Bucket {
    const bucket = buckets.get(name)
    if (!bucket) return { tokens: burst, at: now }
    bucket.tokens = Math.min(burst, bucket.tokens + (Math.max(0, now - bucket.at) * perSecond) / 1_000)
    bucket.at = now
    return bucket
  }

  return {
    /** Whole seconds until there is a token; 0 when there is one. */
    wait: (name: string, rate: Rate, now: number): number => secondsUntil(filled(name, rate, now), rate),
    /** Puts so many in, or takes them out, as far as it goes; gives how many there are then. */
    add(name: string, tokens: number, rate: Rate, now: number): number {
      const bucket = filled(name, rate, now)
      bucket.tokens = Math.min(rate.burst, Math.max(0, bucket.tokens + tokens))
      if (!buckets.has(name)) buckets.set(name, bucket)
      return bucket.tokens
    },
    /** Takes one and gives 0; where there is none, the whole seconds until there is. */
    take(name: string, rate: Rate, now: number): number {
      const bucket = filled(name, rate, now)
      const seconds = secondsUntil(bucket, rate)
      if (seconds > 0) return seconds
      bucket.tokens -= 1
      if (!buckets.has(name)) buckets.set(name, bucket)
      return 0
    },
  }
}
