/**
 * Nonces that were used, each kept until its signature expires. Their number is bounded: per key, per owner of keys, and in all.
 * Beyond a bound further signatures are refused: forgetting a nonce would let its signature in again. An owner who has used few
 * always has room, however many others have used.
 */
/** Whether another process behind the same address has seen a nonce; `unknown` when the store cannot say now. */
export type SharedNonces = (
  key: string,
  nonce: string,
  until: number,
) => Promise<'fresh' | 'used' | 'unknown'>

/** Whose key it is, and which of them. */
type SignerName = { owner: string; keyid: string }

type ReplayOptions = {
  now(): number
  /** Absent when there is no other process. */
  shared?: SharedNonces
  mostPerKey?: number
  mostPerOwner?: number
  most?: number
  /** Nonces that others' cannot displace. */
  share?: number
}

const MOST_PER_KEY = 100_000
const MOST_PER_OWNER = 200_000 // a key and its successor; how many keys there are is the owner's word
const MOST = 1_000_000
const SHARE = 10_000 // 27 signatures a second
/** How often expired nonces are removed, seconds. */
const SWEEP_S = 10

type Used = { count: number; keys: Map<string, Map<string, number>> }

/** `now` in ms; times in seconds. */
export function createReplayGuard(options: ReplayOptions) {
  const { now, shared, mostPerKey = MOST_PER_KEY, mostPerOwner = MOST_PER_OWNER } = options
  const { most = MOST, share = SHARE } = options
  const owners = new Map<string, Used>()
  let count = 0
  let sweptAt = 0

  function sweepOwner(used: Used, seconds: number): void {
    for (const [keyid, nonces] of used.keys) {
      for (const [nonce, until] of nonces) {
        if (until >= seconds) continue
        nonces.delete(nonce)
        used.count -= 1
        count -= 1
      }
      if (nonces.size === 0) used.keys.delete(keyid)
    }
  }

  function sweep(): void {
    const seconds = Math.floor(now() / 1_000)
    if (seconds < sweptAt + SWEEP_S) return
    sweptAt = seconds
    for (const [owner, used] of owners) {
      sweepOwner(used, seconds)
      if (used.count === 0) owners.delete(owner)
    }
  }

  return {
    /** Whether there is room for another nonce of the key. Asked first, because it is cheaper than verifying. */
    hasRoom({ owner, keyid }: SignerName): boolean {
      sweep()
      const used = owners.get(owner)
      if (!used) return true
      const isWithin = used.count < mostPerOwner && (used.keys.get(keyid)?.size ?? 0) < mostPerKey
      return isWithin && (count < most || used.count < share)
    },
    /** Remembers a nonce until its signature expires. */
    async take(
      { owner, keyid }: SignerName,
      nonce: string,
      until: number,
    ): Promise<'fresh' | 'used' | 'unknown'> {
      const used = owners.get(owner) ?? { count: 0, keys: new Map<string, Map<string, number>>() }
      const nonces = used.keys.get(keyid) ?? new Map<string, number>()
      if (nonces.has(nonce)) return 'used'
      owners.set(owner, used)
      used.keys.set(keyid, nonces)
      nonces.set(nonce, until)
      used.count += 1
      count += 1
      return shared ? await shared(`${owner} ${keyid}`, nonce, until) : 'fresh'
    },
  }
}

export type ReplayGuard = ReturnType<typeof createReplayGuard>
