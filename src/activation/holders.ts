/**
 * Who has what on, on which destinations, and what a caller may see of it (specification, "Deployment", "Rules for destinations" 3).
 * An upstream that is reached with one credential for all callers cannot tell them apart, so what one of them switches off there is
 * off for all. A caller's wish ends with its deactivation; the upstream's delivery ends when no caller wishes for it any more
 * (docs/activation.md, "Whose activation it is").
 */
import type { Deployment, Destination } from '../adcp/signal.js'
import { destinationKey, matchesDestination } from '../merge/deployments.js'
import type { InPortions } from '../process/portions.js'
import { type Call, callJob, type NewCall, upstreamKey } from '../store/call.js'
import type { Decided, EntryOfJob, PromisedRecords } from '../store/promised-work.js'
import { canonical } from '../store/records/idempotency.js'
import type { EndedAmong, Entry } from '../store/records/ledger.js'
import { createDestinationSet, type DestinationSet, mayOverlap } from './destination-set.js'

function isGranted(deployment: Deployment, held: readonly Destination[]): boolean {
  const key = destinationKey(deployment)
  if (key === undefined) return false
  return held.map(destinationKey).some((grant) => grant !== undefined && matchesDestination(key, grant))
}

/** The deployments, with keys only on live ones and when the caller has a grant. */
export function visibleDeployments(
  deployments: readonly Deployment[],
  held: readonly Destination[],
): Deployment[] {
  return deployments.map((deployment) => {
    if (deployment.is_live && isGranted(deployment, held)) return deployment
    const { activation_key: _, ...rest } = deployment
    return rest
  })
}

/** A result's signals with keys only where the caller has a grant now. */
export function shownSignals(result: unknown, grants: readonly Destination[]): unknown {
  const { signals } = (result ?? {}) as { signals?: readonly { deployments?: readonly Deployment[] }[] }
  if (!Array.isArray(signals)) return result
  const shown = signals.map((row) =>
    Array.isArray(row.deployments)
      ? { ...row, deployments: visibleDeployments(row.deployments, grants) }
      : row,
  )
  return { ...(result as object), signals: shown }
}

/** A caller with one of its accounts, and how the upstream sees it. */
export type Holder = {
  caller: string
  account?: string
  seenAs: 'own' | 'shared'
  upstreamAccount?: unknown
}

/** Whose call it is. */
export function holderOf({ caller, account, seenAs, args }: Call): Holder {
  return {
    ...{ caller, seenAs },
    ...(account !== undefined && { account }),
    ...(args.account !== undefined && { upstreamAccount: args.account }),
  }
}

const nameOf = ({ caller, account }: Holder) => JSON.stringify([caller, account ?? null])

/** Whether the upstream cannot tell the two apart. */
function isSeenAsOne(one: Holder, other: Holder): boolean {
  const isOne = one.seenAs === 'shared' && other.seenAs === 'shared'
  if (!isOne && one.caller !== other.caller) return false
  return canonical(one.upstreamAccount ?? null) === canonical(other.upstreamAccount ?? null)
}

const NEVER_ON: ReadonlySet<string> = new Set(['failed', 'superseded'])

const LOOKED_AT = 300 // entries at a time: some milliseconds

const wishOf = ({ destinations }: Entry) => destinations as readonly Destination[]

function setIn(sets: Map<string, DestinationSet>, name: string): DestinationSet {
  const known = sets.get(name) ?? createDestinationSet()
  sets.set(name, known)
  return known
}

/**
 * The destinations of a wish of which no newer one says anything: `seen`. It says something of them from then on, and a deactivation
 * of all that it names: what it ended stays ended, also where a newer wish names a part of it.
 */
function takeNewest(seen: DestinationSet, entry: Entry): Destination[] {
  const newest = wishOf(entry).filter((one) => !seen.overlaps(one))
  seen.add(entry.action === 'deactivate' ? wishOf(entry) : newest)
  return newest
}

/**
 * Where others than `holder` have the segment on, as far as the upstream can tell them apart. `entries`: of one
 * segment, newest first.
 */
export function standingFor(entries: readonly Entry[], holder: Holder): Destination[] {
  const settled = new Map<string, DestinationSet>() // by holder: destinations whose newest wish was already found
  const own = nameOf(holder)
  return entries.flatMap((entry) => {
    const name = nameOf(entry)
    if (NEVER_ON.has(entry.outcome) || name === own || !isSeenAsOne(entry, holder)) return []
    const newest = takeNewest(setIn(settled, name), entry)
    return entry.action === 'activate' ? newest : []
  })
}

/**
 * Deactivations that left destinations on, as long as they are the newest wish for those. `entries`: of one segment,
 * newest first.
 */
function leftOnFor(
  entries: readonly Entry[],
  holder: Holder,
): { entry: Entry; destinations: Destination[] }[] {
  const seen = createDestinationSet()
  return entries.flatMap((entry) => {
    if (NEVER_ON.has(entry.outcome) || !isSeenAsOne(entry, holder)) return []
    const newest = takeNewest(seen, entry)
    if (entry.action !== 'deactivate' || entry.outcome !== 'completed') return []
    const live = (entry.deployments as readonly Deployment[] | undefined)?.filter(({ is_live }) => is_live)
    const destinations = newest.filter((destination) => live?.some((one) => mayOverlap(one, destination)))
    return destinations.length > 0 ? [{ entry, destinations }] : []
  })
}

const isOpen = ({ outcome }: Entry) => outcome === 'pending' || outcome === 'submitted'

/** Activations that are on or may come on, whoever's, and those that are no longer on but not old yet. `entries`: newest first. */
function* restingAmong(
  entries: readonly Entry[],
  isOld: (entry: Entry) => boolean,
): InPortions<ReadonlySet<Entry>> {
  const seen = new Map<string, DestinationSet>() // by holder, as the upstream sees it
  const resting = new Set<Entry>()
  for (const [at, entry] of entries.entries()) {
    if (at % LOOKED_AT === LOOKED_AT - 1) yield
    if (isOpen(entry)) {
      resting.add(entry)
      continue
    }
    const holder = `${nameOf(entry)} ${entry.seenAs} ${canonical(entry.upstreamAccount ?? null)}`
    const newest = takeNewest(setIn(seen, holder), entry)
    if (entry.action === 'activate' && (newest.length > 0 || !isOld(entry))) resting.add(entry)
  }
  return resting
}

/**
 * Entries on which nothing rests (`EndedAmong`): activations that are no longer on, and deactivations that end nothing which still
 * has an entry. While anything is open, deactivations stay: they may have left something on for it.
 */
export const endedAmong: EndedAmong = function* (entries, isOld) {
  const counting = entries.filter(({ outcome }) => !NEVER_ON.has(outcome))
  const resting = yield* restingAmong(counting, isOld)
  const isAnyOpen = counting.some(isOpen)
  const before = new Map<string, DestinationSet>() // by caller and account: what older entries that stay are about
  const ended: Entry[] = []
  for (const [at, entry] of counting.toReversed().entries()) {
    if (at % LOOKED_AT === LOOKED_AT - 1) yield
    const older = setIn(before, nameOf(entry))
    const isOver = isOld(entry) && !isAnyOpen && !wishOf(entry).some(older.overlaps)
    if (entry.action === 'activate' ? !resting.has(entry) && isOld(entry) : isOver) ended.push(entry)
    else older.add(wishOf(entry))
  }
  return ended
}

/** The deactivation again, for the destinations that no other caller has on. */
function again(id: string, ended: Entry, destinations: readonly Destination[]) {
  const { caller, account, agentUrl, segmentId, seenAs, isCredentialed, upstreamAccount } = ended
  const call: NewCall = {
    ...{ id, caller, key: '', task: 'activate_signal', agentUrl, seenAs },
    ...{ upstreamKey: upstreamKey(id), segment: segmentId, rows: [] },
    ...(account !== undefined && { account }),
    ...(isCredentialed && { isCredentialed }),
    args: {
      ...{ action: 'deactivate', signal_agent_segment_id: segmentId, destinations },
      ...(upstreamAccount !== undefined && { account: upstreamAccount }),
    },
  }
  const entry: EntryOfJob = { ...ended, id, destinations }
  return { call, entry }
}

/**
 * What to switch off after the call has ended: its wish failed, or it left something on. A deactivation may leave a destination
 * on for another caller whose own activation then fails. Nobody wants the destination any more, so the last caller who wanted
 * it off asks again. Called in the transaction that stores the ending: until it commits, no request for the segment can be
 * stored, so later requests come after it.
 */
export async function unwantedNow({ ledger }: Pick<PromisedRecords, 'ledger'>, call: Call): Promise<Decided> {
  const { id, agentUrl, segment } = call
  if (segment === undefined || !(await ledger.wasLeftOn(agentUrl, segment))) return { jobs: [], entries: [] }
  const entries = await ledger.ofSegment(agentUrl, segment)
  const wishes = leftOnFor(entries, holderOf(call)).flatMap(({ entry, destinations }, index) => {
    const others = standingFor(entries, entry)
    const unwanted = destinations.filter((one) => !others.some((other) => mayOverlap(one, other)))
    return unwanted.length > 0 ? [again(`${id}.off.${index}`, entry, unwanted)] : []
  })
  return { jobs: wishes.map((wish) => callJob(wish.call)), entries: wishes.map(({ entry }) => entry) }
}
