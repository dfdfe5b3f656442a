/** How long each upstream usually takes to answer a question: what decides whether asking, and asking again, is worth it. */
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../net/clock.js'

const SAMPLES = 16
const ENOUGH = 4 // fewer say nothing
const MEMORY_MS = 10 * 60_000 // a slow upstream is tried again after this
const MOST_UPSTREAMS = 10_000
const HEDGE_FACTOR = 3
const HEDGE_MIN_MS = 250

export function createLatencies(clock: Clock) {
  const seen = new LRUCache<string, { at: number; ms: number }[]>({ max: MOST_UPSTREAMS })

  function note(id: string, ms: number): void {
    seen.set(id, [...(seen.get(id) ?? []).slice(1 - SAMPLES), { at: clock.now(), ms }])
  }

  /** The median of what was seen lately; undefined while too little was. */
  function typical(id: string): number | undefined {
    const recent = (seen.get(id) ?? []).filter(({ at }) => clock.now() - at < MEMORY_MS)
    if (recent.length < ENOUGH) return undefined
    const sorted = recent.map(({ ms }) => ms).sort((one, other) => one - other)
    return sorted[sorted.length >> 1]
  }

  /** When a second request is worth its cost: the first is overdue by far, and a usual answer still fits. */
  function hedgeAfter(id: string, leftMs: number): number | undefined {
    const usual = typical(id)
    if (usual === undefined) return undefined
    const after = Math.max(HEDGE_MIN_MS, HEDGE_FACTOR * usual)
    return after + 2 * usual < leftMs ? after : undefined
  }

  return { note, typical, hedgeAfter }
}
