/**
 * How long each upstream usually takes to answer a question: this decides whether asking it, and asking it again, is useful
 * (docs/decisions.md#deadlines).
 */
import type { Clock } from '../net/clock.js'
import { createRecent } from '../process/memory.js'

const SAMPLES = 16
const ENOUGH = 4 // fewer samples prove nothing
const MEMORY_MS = 10 * 60_000 // a slow upstream is tried again after this
const MOST_UPSTREAMS = 10_000
const HEDGE_FACTOR = 3
const HEDGE_MIN_MS = 250

export function createLatencies(clock: Clock) {
  const seen = createRecent<{ at: number; ms: number }[]>(MOST_UPSTREAMS)

  function note(agentUrl: string, ms: number): void {
    seen.set(agentUrl, [...(seen.get(agentUrl) ?? []).slice(1 - SAMPLES), { at: clock.now(), ms }])
  }

  /** The median of recent answers; undefined while there are too few. */
  function typical(agentUrl: string): number | undefined {
    const recent = (seen.get(agentUrl) ?? []).filter(({ at }) => clock.now() - at < MEMORY_MS)
    if (recent.length < ENOUGH) return undefined
    const sorted = recent.map(({ ms }) => ms).sort((one, other) => one - other)
    return sorted[sorted.length >> 1]
  }

  /** When to send a second request: the first is long overdue, and a usual answer still fits in the time. */
  function hedgeAfter(agentUrl: string, leftMs: number): number | undefined {
    const usual = typical(agentUrl)
    if (usual === undefined) return undefined
    const after = Math.max(HEDGE_MIN_MS, HEDGE_FACTOR * usual)
    return after + 2 * usual < leftMs ? after : undefined
  }

  return { note, typical, hedgeAfter }
}

export type Latencies = ReturnType<typeof createLatencies>
