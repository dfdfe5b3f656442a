/**
 * Divides the providers among processes that share a storage. All domains fall into a few shares, so that thousands of
 * providers need only a few leases.
 */
import type { Sharing, Turn, Turns } from '../../upstreams/rows/sharing.js'

const SHARES = 32
const PREFIX = 'provider/'
/** So many providers in a row that did not answer: more likely this process is cut off than all of them are down. */
const SILENT = 3

/** FNV-1a. */
function shareOf(domain: string): string {
  let hash = 0x811c9dc5
  for (let at = 0; at < domain.length; at += 1) hash = Math.imul(hash ^ domain.charCodeAt(at), 0x01000193)
  return `providers/${(hash >>> 0) % SHARES}`
}

/** `sharing`: undefined when this process is alone, and then every turn is its own. */
export function createShares(turns: Turns, sharing: Sharing | undefined) {
  const all = Array.from({ length: SHARES }, (_, share) => `providers/${share}`)
  const silent = new Set<string>()
  turns.want('providers', all)

  /** Leaves every share to the other processes, which may be able to reach the providers. */
  async function passAll(): Promise<void> {
    for (const share of all) if (turns.turn(share)) await sharing?.pass(share)
  }

  return {
    /** Undefined when another process looks at it. */
    turn: (domain: string): Turn | undefined => turns.turn(shareOf(domain)),
    onTurns: turns.onTurns,
    /**
     * Tells the other processes that it was looked at and the result is saved. `answered`: whether the provider answered
     * at all.
     */
    async looked(domain: string, turn: Turn, answered: boolean): Promise<void> {
      await sharing?.tell(`${PREFIX}${domain}`, 'looked', turn)
      if (answered) return silent.clear()
      silent.add(domain)
      if (silent.size < SILENT) return
      silent.clear()
      await passAll()
    },
    hear(listener: (domain: string) => void): void {
      sharing?.hear(PREFIX, (name) => listener(name.slice(PREFIX.length)))
    },
  }
}
