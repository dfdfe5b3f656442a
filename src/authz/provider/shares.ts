/**
 * Divides the providers among processes that share a storage. All domains fall into a few shares, so that thousands of
 * providers need only a few leases.
 */
import type { Sharing, Turn, Turns } from '../../upstreams/rows/sharing.js'

const SHARES = 32
const PREFIX = 'provider/'

/** FNV-1a. */
function shareOf(domain: string): string {
  let hash = 0x811c9dc5
  for (let at = 0; at < domain.length; at += 1) hash = Math.imul(hash ^ domain.charCodeAt(at), 0x01000193)
  return `providers/${(hash >>> 0) % SHARES}`
}

export function createShares(turns: Turns, sharing: Sharing | undefined) {
  turns.want(
    'providers',
    Array.from({ length: SHARES }, (_, share) => `providers/${share}`),
  )

  return {
    /** Undefined when another process looks at it. */
    turn: (domain: string): Turn | undefined => turns.turn(shareOf(domain)),
    onTurns: turns.onTurns,
    /** Tells the others that it was looked at and the result is saved. */
    tell: async (domain: string, turn: Turn): Promise<void> =>
      void (await sharing?.tell(`${PREFIX}${domain}`, 'looked', turn)),
    hear(listener: (domain: string) => void): void {
      sharing?.hear(PREFIX, (name) => listener(name.slice(PREFIX.length)))
    },
  }
}
