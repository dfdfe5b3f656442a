/** How far replicas are apart: each is asked over and over, past the balancer, which version of the feed it serves. */
import { setTimeout as wait } from 'node:timers/promises'
import { ask } from './asking.js'
import type { Replica } from './cluster.js'
import { TOKENS } from './crowd.js'

const EVERY_MS = 50
const ONE_ROW = { discovery_mode: 'wholesale', pagination: { max_results: 1 } }
/** After a fault a replica catches up; what it lags behind then is not what is measured. */
const CALM_MS = 15_000

export function watchReplicas(replicas: readonly Replica[], isAfflicted: (replica: Replica) => boolean) {
  const firstSeen = new Map<string, number>()
  const lags: number[] = []
  const calmSince = new Map(replicas.map((one) => [one, 0]))
  const awaited = new Map<Replica, Map<string, number>>(replicas.map((one) => [one, new Map()]))
  let isOver = false

  /** It serves this version now: whatever was seen elsewhere before it, it has, or has passed over. */
  function seen(replica: Replica, version: string): void {
    const now = Date.now()
    const at = firstSeen.get(version) ?? now
    if (!firstSeen.has(version)) {
      firstSeen.set(version, now)
      for (const other of replicas) if (other !== replica) awaited.get(other)?.set(version, now)
    }
    const waiting = awaited.get(replica) ?? new Map<string, number>()
    for (const [other, since] of waiting) {
      if (since > at) continue
      waiting.delete(other)
      if (since > (calmSince.get(replica) ?? 0) + CALM_MS) lags.push(now - since)
    }
  }

  async function look(replica: Replica): Promise<void> {
    while (!isOver) {
      if (isAfflicted(replica)) calmSince.set(replica, Date.now())
      else {
        const said = await ask(replica.url(), TOKENS.walker, 'get_signals', ONE_ROW).catch(() => undefined)
        if (isAfflicted(replica) || !said) calmSince.set(replica, Date.now())
        else if (said.wholesale_feed_version) seen(replica, said.wholesale_feed_version)
      }
      await wait(EVERY_MS)
    }
  }

  const looking = Promise.all(replicas.map(look))
  return {
    /** How many versions were seen, and how long each took from the first replica that served it to each other one, ms. */
    async end(): Promise<{ versions: number; lags: readonly number[] }> {
      isOver = true
      await looking
      return { versions: firstSeen.size, lags: lags.sort((a, b) => a - b) }
    },
  }
}
