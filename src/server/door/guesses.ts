/**
 * Wrong credentials, counted by the address that they come from. Whoever sends many is refused before its next one is
 * looked at; callers that were seen at that address before go on, for addresses are shared.
 */
import { LRUCache } from 'lru-cache'

const BURST = 20 // more than a person or a misconfigured client needs, nothing for who guesses
const PER_SECOND = 1
const MOST_ADDRESSES = 10_000
const MOST_SEEN = 10_000

export type Guesses = {
  /** Seconds until a credential from there is looked at again; 0 when it is now. */
  wait(address: string): number
  /** A wrong one came. */
  note(address: string): void
  /** Whether any address has to wait: while none has, nobody needs to be looked at. */
  isAnySpent(): boolean
  /** This caller, by a right credential, is at this address. */
  see(who: string, address: string): void
  hasSeen(who: string, address: string): boolean
}

type Bucket = { tokens: number; at: number }

export function createGuesses(now: () => number): Guesses {
  const buckets = new LRUCache<string, Bucket>({ max: MOST_ADDRESSES })
  const seen = new LRUCache<string, true>({ max: MOST_SEEN })
  let spentUntil = 0

  function filled(address: string): Bucket {
    const { tokens, at } = buckets.get(address) ?? { tokens: BURST, at: now() }
    return { tokens: Math.min(BURST, tokens + (Math.max(0, now() - at) * PER_SECOND) / 1_000), at: now() }
  }

  return {
    wait(address) {
      const { tokens } = filled(address)
      return tokens >= 1 ? 0 : Math.max(1, Math.ceil((1 - tokens) / PER_SECOND))
    },
    note(address) {
      const bucket = filled(address)
      bucket.tokens = Math.max(0, bucket.tokens - 1)
      buckets.set(address, bucket)
      if (bucket.tokens < 1)
        spentUntil = Math.max(spentUntil, now() + ((1 - bucket.tokens) * 1_000) / PER_SECOND)
    },
    isAnySpent: () => now() < spentUntil,
    see: (who, address) => void seen.set(`${address} ${who}`, true),
    hasSeen: (who, address) => seen.has(`${address} ${who}`),
  }
}
