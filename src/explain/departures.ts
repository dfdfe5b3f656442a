/**
 * Remembers which signals left the feed, when, and who had offered them: without it a signal that was withdrawn yesterday
 * looks like one that never was. Since this process started, bounded, and compared in portions between other work.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import { compareKeys } from '../snapshot/keys.js'
import { handleAt, type Snapshot } from '../snapshot/snapshot.js'

const MAX_DEPARTED = 100_000
const PORTION = 20_000 // entries between two turns of the loop: under a millisecond

export type Departure = {
  /** Agent urls (canonical) of the offers that stood last. */
  agentUrls: readonly string[]
  at: number
}

function agentsOf(snapshot: Snapshot, entry: number): string[] {
  const { at, slice, stands } = snapshot.offers
  const urls = new Set<string>()
  for (let offer = at[entry] as number; offer < (at[entry + 1] as number); offer += 1) {
    const url = stands[offer] ? snapshot.slices[slice[offer] as number]?.slice.agentUrl : undefined
    if (url !== undefined) urls.add(url)
  }
  return [...urls]
}

export function createDepartures() {
  const departed = new LRUCache<string, Departure>({ max: MAX_DEPARTED })
  let comparing = Promise.resolve()

  /** One walk in key order over both: shown before, not shown now. */
  async function compare(before: Snapshot, after: Snapshot, at: number): Promise<void> {
    let place = 0
    for (let one = 0; one < before.shown.length; one += 1) {
      if (one % PORTION === PORTION - 1) await nextTurn()
      const entry = before.shown[one] as number
      const order = () => compareKeys(after.keys, after.shown[place] as number, before.keys, entry)
      while (place < after.shown.length && order() < 0) place += 1
      if (place < after.shown.length && order() === 0) continue
      departed.set(handleAt(before, entry), { agentUrls: agentsOf(before, entry), at })
    }
  }

  return {
    /** Compares two published snapshots of the public layer; `at` in ms. Later comparisons wait for earlier ones. */
    note(before: Snapshot | undefined, after: Snapshot, at: number): Promise<void> {
      if (before && before.structure !== after.structure) {
        comparing = comparing.then(() => compare(before, after, at))
      }
      return comparing
    },
    /** When the signal was last seen to leave; it may have come back since. */
    of: (handle: string) => departed.get(handle),
  }
}

export type Departures = ReturnType<typeof createDepartures>
