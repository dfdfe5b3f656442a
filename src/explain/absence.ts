/**
 * Why a signal that no slice lists is missing. The evidence is checked from the strongest to the weakest: a row that was
 * refused, a signal that was there before, a provider that publishes it, and finally that nothing is known. Which signals
 * left the feed, when, and who had offered them is remembered: otherwise a signal that was withdrawn yesterday looks like one
 * that never existed. So are the upstreams that left the roster. Kept since this process started, bounded; snapshots are
 * compared in portions between other work.
 */
import { canonicalUrl } from '../adcp/url.js'
import { type CompiledProvider, decide } from '../authz/rules/verdict.js'
import type { Identity } from '../merge/identity.js'
import { compareKeys } from '../merge/keys.js'
import { createRecent } from '../process/memory.js'
import { nextPortion } from '../process/portion-turns.js'
import { PORTION } from '../process/portions.js'
import { handleAt, type Snapshot } from '../snapshot/snapshot.js'
import type { UpstreamStatus } from '../upstreams/mirror/scope-status.js'
import type { Roster, RosterEntry } from '../upstreams/roster/roster.js'
import { type Slice, sliceListing } from '../upstreams/rows/slice.js'
import type { Why } from './remedies.js'

const MAX_DEPARTED = 100_000
const MAX_FORMER = 10_000
const PARSED = 100 // rows that are parsed between two portions

type Departure = {
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
      if (one % PORTION === PORTION - 1) await nextPortion()
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
      await nextPortion()
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
    /** By its id or its url, however that is spelled. */
    find(ref: string): FormerUpstream | undefined {
      const agentUrl = canonicalUrl(ref)
      if (agentUrl !== undefined && former.has(agentUrl)) return former.get(agentUrl)
      return [...former.values()].find(({ id }) => id === ref)
    },
  }
}

export type FormerUpstreams = ReturnType<typeof createFormerUpstreams>

/** `detail` is a closed word; `agentUrls` are the upstreams it is about. */
type Absence = { why: Why; detail?: string; agentUrls: readonly string[] }

type AbsenceInput = {
  /** As the person typed it. */
  ref: string
  identity?: Identity
  departure?: Departure
  /** The provider of the identity, when it is held. */
  provider?: CompiledProvider
  slices: readonly Slice[]
  roster: Roster
  statuses: readonly UpstreamStatus[]
  now: number
}

function refusedRow({ ref, identity, slices }: AbsenceInput): Absence | undefined {
  const names = new Set([ref])
  if (identity?.kind === 'provider') names.add(`${identity.domain}/${identity.id}`)
  if (identity?.kind === 'source') names.add(`${identity.agentUrl}#${identity.id}`)
  for (const { agentUrl, refused = [] } of slices) {
    const row = refused.find(({ segment = '', signal = '' }) => names.has(segment) || names.has(signal))
    if (row) return { why: 'refused_row', detail: row.reason, agentUrls: [agentUrl] }
  }
  return undefined
}

/** The reason why an upstream's rows are missing now; undefined when it is read. */
function away(agentUrl: string, { roster, statuses }: AbsenceInput): Absence | undefined {
  const agentUrls = [agentUrl]
  const entry = roster.entries.find((each) => each.agentUrl === agentUrl)
  if (!entry) {
    const out = roster.excluded.find(({ url }) => url === agentUrl)
    return out
      ? { why: 'upstream_excluded', detail: out.reason, agentUrls }
      : { why: 'upstream_left', agentUrls }
  }
  const status = statuses.find(({ id }) => id === entry.id)
  if (!status || status.state === 'starting') return { why: 'upstream_starting', agentUrls }
  if (status.state !== 'absent') return undefined
  return {
    why: 'upstream_absent',
    ...(status.problem && { detail: status.problem.reason }),
    agentUrls,
  }
}

function whyDeparted(input: AbsenceInput): Absence | undefined {
  const { departure } = input
  if (!departure) return undefined
  const { agentUrls } = departure
  const causes = agentUrls.flatMap((agentUrl) => away(agentUrl, input) ?? [])
  return causes[0] ?? { why: 'withdrawn', agentUrls }
}

/** The provider publishes the signal, so an agent that it authorizes should offer it. */
function whyNotOffered(input: AbsenceInput): Absence | undefined {
  const { provider, identity, roster, now } = input
  if (identity?.kind !== 'provider' || !provider?.rules) return undefined
  if (provider.rules.signalNumber(identity.id) < 0) return undefined
  const agents = [...roster.entries.map(({ agentUrl }) => agentUrl), ...roster.excluded.map(({ url }) => url)]
  const entitled = agents.filter((url) => decide(provider, identity.id, url, now).outcome === 'authorized')
  const causes = entitled.flatMap((agentUrl) => away(agentUrl, input) ?? [])
  return causes[0] ?? { why: 'not_offered', agentUrls: entitled }
}

/** The strongest reason that has evidence; `unknown` when none has. */
export function explainAbsence(input: AbsenceInput): Absence {
  return refusedRow(input) ?? whyDeparted(input) ?? whyNotOffered(input) ?? { why: 'unknown', agentUrls: [] }
}
