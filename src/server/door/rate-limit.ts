/**
 * How much one caller may ask: a token bucket per caller, refilled over time (docs/configuration.md, `rate_limit`).
 * Buckets are in a bounded cache; a caller that is dropped from it starts with a full bucket.
 */
import { LRUCache } from 'lru-cache'

const MAX_CALLERS = 100_000

export type RateLimit = {
  perSecond: number
  burst: number
  /** Among how many processes that serve one address it is divided. Default: this one has all of it. */
  among?(): number
}
export type RateLimiter = {
  /** 0 when the call may go on; else the seconds until it may, at least 1. */
  take(caller: string, now: number): number
}

type Bucket = { tokens: number; at: number }

/** `limit` undefined: nobody is held back. */
export function createRateLimiter(limit: RateLimit | undefined): RateLimiter {
  if (!limit) return { take: () => 0 }
  const { perSecond: all, burst: most, among = () => 1 } = limit
  if (!(all > 0) || !(most >= 1)) {
    throw new RangeError(`A rate limit needs per_second > 0 and burst >= 1, got ${all} and ${most}`)
  }
  // counted by size: `max` would take the memory of all at once, before anybody asks
  const buckets = new LRUCache<string, Bucket>({ maxSize: MAX_CALLERS, sizeCalculation: () => 1 })

  function take(caller: string, now: number): number {
    const parts = among()
    const perSecond = all / parts
    const burst = Math.max(1, most / parts)
    let bucket = buckets.get(caller)
    if (!bucket) {
      bucket = { tokens: burst, at: now }
      buckets.set(caller, bucket)
    }
    bucket.tokens = Math.min(burst, bucket.tokens + (Math.max(0, now - bucket.at) * perSecond) / 1_000)
    bucket.at = now
    if (bucket.tokens < 1) return Math.min(3_600, Math.max(1, Math.ceil((1 - bucket.tokens) / perSecond)))
    bucket.tokens -= 1
    return 0
  }

  return { take }
}
