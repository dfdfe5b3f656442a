/**
 * Wrong credentials, counted by the address that they come from. Whoever sends many is refused before its next one is
 * looked at; callers that were seen at that address before go on, for addresses are shared.
 */
import { createRecent } from '../../memory/recent.js'
import { createBuckets } from '../../net/buckets.js'

const RATE = { perSecond: 1, burst: 20 } // more than a person or a misconfigured client needs, nothing for who guesses
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

/** `now`: ms. */
export function createGuesses(now: () => number): Guesses {
  const buckets = createBuckets(MOST_ADDRESSES)
  const seen = createRecent<true>(MOST_SEEN)
  let spentUntil = 0

  return {
    wait: (address) => buckets.wait(address, RATE, now()),
    note(address) {
      const left = buckets.add(address, -1, RATE, now())
      if (left < 1) spentUntil = Math.max(spentUntil, now() + ((1 - left) * 1_000) / RATE.perSecond)
    },
    isAnySpent: () => now() < spentUntil,
    see: (who, address) => void seen.set(`${address} ${who}`, true),
    hasSeen: (who, address) => seen.has(`${address} ${who}`),
  }
}
