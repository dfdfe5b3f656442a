/**
 * Remembers which signals left the feed, when, and who had offered them: otherwise a signal that was withdrawn
 * yesterday looks like one that never existed. Kept since this process started, bounded, and compared in portions
 * between other work.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { agentUrlOf } from '../adcp/url.js'
import { createRecent } from '../memory/recent.js'
import { compareKeys } from '../snapshot/keys.js'
import { handleAt, type Snapshot } from '../snapshot/snapshot.js'
import type { Roster, RosterEntry } from '../upstreams/roster/roster.js'
import { sliceListing } from '../upstreams/rows/slice.js'

const MAX_DEPARTED = 100_000
const PORTION = 20_000 // entries between two turns of the loop: under a millisecond
const PARSED = 100 // rows that are parsed between two turns

export type Departure = {
  /** Agent urls (canonical) of the offers that stood last. */
  agentUrls: readonly string[]
  at: number
}

type Offered = { agentUrl: string; segment: string }

/** Offers that stood, of those slices, each by the upstream's own segment id. */
function offersOf(snapshot: Snapshot, entry: number, of: (slice: number) => boolean): Offered[] {
  const { at, slice, row, stands } = snapshot.offers
  const offered: Offered[] = []
  for (let offer = at[entry] as number; offer < (at[entry + 1] as number); offer += 1) {
    const place = slice[offer] as number
    const from = stands[offer] && of(place) ? snapshot.slices[place]?.slice : undefined
    if (!from) continue
    const { signal_agent_segment_id: segment } = sliceListing(from, row[offer] as number)
    offered.push({ agentUrl: from.agentUrl, segment })
  }
  return offered
}

/** The places of slices that nothing took the place of: their upstreams left. */
function goneSlices(before: Snapshot, after: Snapshot): ReadonlySet<number> {
  const there = new Set(after.slices.map(({ slice }) => slice.agentUrl))
  return new Set(before.slices.flatMap(({ slice }, at) => (there.has(slice.agentUrl) ? [] : at)))
}

const any = () => true

/** Knows nothing before its first `note`. */
export function createDepartures() {
  const departed = createRecent<Departure>(MAX_DEPARTED)
  const handles = createRecent<string>(MAX_DEPARTED) // by the upstream's segment id, of offers that left
  let comparing = Promise.resolve()

  /** One walk in key order over both: shown before, and not shown now or offered by somebody who left. */
  async function compare(before: Snapshot, after: Snapshot, at: number): Promise<void> {
    let place = 0
    let parsed = 0
    const gone = goneSlices(before, after)
    const isGone = (slice: number) => gone.has(slice)
    for (let one = 0; one < before.shown.length; one += 1) {
      if (one % PORTION === PORTION - 1) await nextTurn()
      const entry = before.shown[one] as number
      const order = () => compareKeys(after.keys, after.shown[place] as number, before.keys, entry)
      while (place < after.shown.length && order() < 0) place += 1
      const isThere = place < after.shown.length && order() === 0
      if (isThere && gone.size === 0) continue
      const offered = offersOf(before, entry, isThere ? isGone : any)
      const handle = handleAt(before, entry)
      if (!isThere) {
        departed.set(handle, { agentUrls: [...new Set(offered.map(({ agentUrl }) => agentUrl))], at })
      }
      for (const { segment } of offered) handles.set(segment, handle)
      parsed += offered.length
      if (parsed < PARSED) continue
      parsed = 0
      await nextTurn()
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
    /** The handle of a signal that left, or whose upstream did, by what that upstream called it. */
    handleOfSegment: (segment: string) => handles.get(segment),
  }
}

export type Departures = ReturnType<typeof createDepartures>

const MAX_FORMER = 10_000

export type FormerUpstream = Pick<RosterEntry, 'id' | 'agentUrl' | 'name' | 'source'> & {
  /** When it was seen to be gone, ms. */
  leftAt: number
}

/**
 * Remembers upstreams that left the roster since this process started: a person who asks about one by its id or url
 * learns that it was there, until when, and who listed it.
 */
export function createFormerUpstreams() {
  const former = createRecent<FormerUpstream>(MAX_FORMER) // by canonical url
  let present: readonly RosterEntry[] = []

  return {
    /** Looks at the roster of this moment. */
    note({ entries }: Roster, now: number): void {
      if (entries === present) return
      const urls = new Set(entries.map(({ agentUrl }) => agentUrl))
      for (const { id, agentUrl, name, source } of present) {
        if (!urls.has(agentUrl)) former.set(agentUrl, { id, agentUrl, name, source, leftAt: now })
      }
      for (const url of urls) former.delete(url)
      present = entries
    },
    at: (agentUrl: string) => former.get(agentUrl),
    /** By its id, its url as somebody wrote it, or its canonical url. */
    find(ref: string): FormerUpstream | undefined {
      const agentUrl = agentUrlOf(ref)
      if (agentUrl !== undefined && former.has(agentUrl)) return former.get(agentUrl)
      return [...former.values()].find(({ id }) => id === ref)
    },
  }
}

export type FormerUpstreams = ReturnType<typeof createFormerUpstreams>
