/**
 * Nonces that were used, each kept until its signature expires. Their number is bounded per key and in all. Beyond the
 * bound, further signatures are refused: forgetting a nonce would let its signature in again.
 */
/** Whether another process behind the same address has seen a nonce; `unknown` when the store cannot say now. */
export type SharedNonces = (
  key: string,
  nonce: string,
  until: number,
) => Promise<'fresh' | 'used' | 'unknown'>

type ReplayOptions = {
  now(): number
  /** Absent when there is no other process. */
  shared?: SharedNonces
  mostPerKey?: number
  most?: number
}

const MOST_PER_KEY = 100_000
const MOST = 1_000_000
/** How often expired nonces are removed, seconds. */
const SWEEP_S = 10

/** `now` in ms; times in seconds. A key is named by its owner and its id. */
export function createReplayGuard({ now, shared, mostPerKey = MOST_PER_KEY, most = MOST }: ReplayOptions) {
  const keys = new Map<string, Map<string, number>>()
  let count = 0
  let sweptAt = 0

  function sweep(): void {
    const seconds = Math.floor(now() / 1_000)
    if (seconds < sweptAt + SWEEP_S) return
    sweptAt = seconds
    for (const [key, nonces] of keys) {
      for (const [nonce, until] of nonces) {
        if (until >= seconds) continue
        nonces.delete(nonce)
        count -= 1
      }
      if (nonces.size === 0) keys.delete(key)
    }
  }

  return {
    /** Whether the key has room for another nonce. Asked first, because it is cheaper than verifying. */
    hasRoom(key: string): boolean {
      sweep()
      return count < most && (keys.get(key)?.size ?? 0) < mostPerKey
    },
    /** Remembers a nonce until its signature expires. */
    async take(key: string, nonce: string, until: number): Promise<'fresh' | 'used' | 'unknown'> {
      const nonces = keys.get(key) ?? new Map<string, number>()
      keys.set(key, nonces)
      if (nonces.has(nonce)) return 'used'
      nonces.set(nonce, until)
      count += 1
      return shared ? await shared(key, nonce, until) : 'fresh'
    },
  }
}

export type ReplayGuard = ReturnType<typeof createReplayGuard>
