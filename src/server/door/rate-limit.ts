/**
 * How much one caller may ask: a token bucket per caller, refilled over time (docs/configuration.md, `rate_limit`).
 */
import { createBuckets, type Rate } from '../../net/buckets.js'

const MAX_CALLERS = 100_000
const LONGEST_S = 3_600

export type RateLimit = Rate & {
  /** Among how many processes that serve one address it is divided. Default: this one has all of it. */
  among?(): number
}
export type RateLimiter = {
  /** 0 when the call may go on; else the seconds until it may, at least 1. */
  take(caller: string, now: number): number
}

/** `limit` undefined: nobody is held back. */
export function createRateLimiter(limit: RateLimit | undefined): RateLimiter {
  if (!limit) return { take: () => 0 }
  const { perSecond: all, burst: most, among = () => 1 } = limit
  if (!(all > 0) || !(most >= 1)) {
    throw new RangeError(`A rate limit needs per_second > 0 and burst >= 1, got ${all} and ${most}`)
  }
  const buckets = createBuckets(MAX_CALLERS)
  return {
    take(caller, now) {
      const parts = among()
      const rate = { perSecond: all / parts, burst: Math.max(1, most / parts) }
      return Math.min(LONGEST_S, buckets.take(caller, rate, now))
    },
  }
}
