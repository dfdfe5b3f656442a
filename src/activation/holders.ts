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
import { createDestinationSet, type DestinationSet } from './destination-set.js'

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

/** One name for all whom the same others are seen as one with. */
const seenName = ({ caller, seenAs, upstreamAccount }: Holder) =>
  JSON.stringify([caller, seenAs, canonical(upstreamAccount ?? null)])

const NEVER_ON: ReadonlySet<string> = new Set(['failed', 'superseded'])

const LOOKED_AT = 300 // entries at a time: some milliseconds

const wishOf = ({ destinations }: Entry) => destinations as readonly Destination[]

function setIn(sets: Map<string, DestinationSet>, name: string): DestinationSet {
  const known = sets.get(name) ?? createDestinationSet()
  sets.set(name, known)
  return known
}

const isOpen = ({ outcome }: Entry) => outcome === 'pending' || outcome === 'submitted'

/**
 * The destinations of an activation that no later deactivation of its holder ended; one that is a deactivation ends what it covers,
 * from when it has ended itself: until then it may still be refused, and what others leave on meanwhile is decided when it ends.
 * Another activation of the holder ends nothing, not even where it names a part of what is on. `ended`: by the later ones.
 */
function stillWanted(entry: Entry, ended: DestinationSet): Destination[] {
  if (entry.action === 'activate') return wishOf(entry).filter((one) => !ended.covers(one))
  if (!isOpen(entry)) ended.add(wishOf(entry))
  return []
}

/** Where the segment is on for anybody whom the upstream cannot tell from `holder`. `entries`: of one segment, newest first. */
function wantedBy(entries: readonly Entry[], holder: Holder): Destination[] {
  const ended = new Map<string, DestinationSet>() // by holder
  const found = new Map<string, DestinationSet>()
  return entries.flatMap((entry) => {
    if (NEVER_ON.has(entry.outcome) || !isSeenAsOne(entry, holder)) return []
    const name = nameOf(entry)
    const known = setIn(found, name)
    const wanted = stillWanted(entry, setIn(ended, name)).filter((one) => !known.has(one))
    known.add(wanted)
    return wanted
  })
}

/** Where others than `holder` have the segment on, as far as the upstream can tell them apart. */
export function standingFor(entries: readonly Entry[], holder: Holder): Destination[] {
  const own = nameOf(holder)
  return wantedBy(
    entries.filter((entry) => nameOf(entry) !== own),
    holder,
  )
}

/** A deactivation, and those of its destinations that are on all the same. */
type Off = { entry: Entry; destinations: Destination[] }

const isLeft = ({ action, outcome, deployments = [] }: Entry) =>
  action === 'deactivate' &&
  outcome === 'completed' &&
  (deployments as readonly Deployment[]).some(({ is_live }) => is_live)

/**
 * Deactivations that left destinations on which no later one names exactly: whether one of all the platform also reaches an account
 * of it is for the upstream to say. `entries`: of one segment, newest first.
 */
function leftOnFor(entries: readonly Entry[], holder: Holder): Off[] {
  const named = createDestinationSet()
  return entries.flatMap((entry) => {
    if (entry.action === 'activate' || NEVER_ON.has(entry.outcome) || !isSeenAsOne(entry, holder)) return []
    const newest = wishOf(entry).filter((one) => !named.has(one))
    named.add(wishOf(entry))
    if (!isLeft(entry)) return []
    const deployments = entry.deployments as readonly Deployment[]
    const live = createDestinationSet(deployments.filter(({ is_live }) => is_live))
    const destinations = newest.filter(live.overlaps)
    return destinations.length > 0 ? [{ entry, destinations }] : []
  })
}

/** Activations that are on or may come on, whoever's, and those that are no longer on but not old yet. `entries`: newest first. */
function* restingAmong(
  entries: readonly Entry[],
  isOld: (entry: Entry) => boolean,
): InPortions<ReadonlySet<Entry>> {
  const ended = new Map<string, DestinationSet>() // by holder, as the upstream sees it
  const resting = new Set<Entry>()
  for (const [at, entry] of entries.entries()) {
    if (at % LOOKED_AT === LOOKED_AT - 1) yield
    if (isOpen(entry)) {
      resting.add(entry)
      continue
    }
    const wanted = stillWanted(entry, setIn(ended, `${nameOf(entry)} ${seenName(entry)}`))
    if (entry.action === 'activate' && (wanted.length > 0 || !isOld(entry))) resting.add(entry)
  }
  return resting
}

/**
 * Entries on which nothing rests (`EndedAmong`): activations that are no longer on, and deactivations that end nothing which still
 * has an entry. While anything is on or may come on, deactivations that left something on stay, and those that ended this later.
 */
export const endedAmong: EndedAmong = function* (entries, isOld) {
  const counting = entries.filter(({ outcome }) => !NEVER_ON.has(outcome))
  const resting = yield* restingAmong(counting, isOld)
  const before = new Map<string, DestinationSet>() // by caller and account: what older entries that stay are about
  const left = createDestinationSet() // what older deactivations that stay left on, whoever's
  const ended: Entry[] = []
  for (const [at, entry] of counting.toReversed().entries()) {
    if (at % LOOKED_AT === LOOKED_AT - 1) yield
    const older = setIn(before, nameOf(entry))
    const isMissed = (one: Destination) => older.overlaps(one) || left.has(one)
    const mayBeLeft = isLeft(entry) && resting.size > 0
    const isOver = isOld(entry) && !mayBeLeft && !wishOf(entry).some(isMissed)
    if (entry.action === 'activate' ? !resting.has(entry) && isOld(entry) : isOver && !resting.has(entry)) {
      ended.push(entry)
      continue
    }
    older.add(wishOf(entry))
    if (isLeft(entry)) left.add(wishOf(entry))
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

/** A deactivation that failed ended no wish, and neither did one that was sent by itself and kept nothing on. */
function endedWish({ id, key, kept, args }: Call, entries: readonly Entry[]): boolean {
  if (args.action !== 'deactivate') return true
  return (key !== '' || kept !== undefined) && entries.some((entry) => entry.id === id)
}

/** Those of the destinations that nobody wants, which the deactivations that named them ask for again. `id`: of the call that ended. */
function againWhereUnwanted(id: string, entries: readonly Entry[], found: readonly Off[]): Decided {
  const wantedOf = new Map<string, DestinationSet>() // by those whose deactivation it is, who may have left it on at many
  const wishes = found.flatMap(({ entry, destinations }, index) => {
    const name = seenName(entry)
    const wanted = wantedOf.get(name) ?? createDestinationSet(wantedBy(entries, entry))
    wantedOf.set(name, wanted)
    const unwanted = destinations.filter((one) => !wanted.overlaps(one))
    return unwanted.length > 0 ? [again(`${id}.off.${index}`, entry, unwanted)] : []
  })
  return { jobs: wishes.map((wish) => callJob(wish.call)), entries: wishes.map(({ entry }) => entry) }
}

/**
 * What to switch off after the call has ended: its wish failed, or it ended one. A deactivation may leave a destination on for
 * another caller, who then switches off only a part of it or all of the platform, or whose own activation fails. Nobody wants the
 * destination any more, so the last caller who wanted it off asks again. Called in the transaction that stores the ending: until it
 * commits, no request for the segment can be stored, so later requests come after it.
 */
export async function unwantedNow({ ledger }: Pick<PromisedRecords, 'ledger'>, call: Call): Promise<Decided> {
  const { id, agentUrl, segment } = call
  if (segment === undefined || !(await ledger.wasLeftOn(agentUrl, segment))) return { jobs: [], entries: [] }
  const entries = await ledger.ofSegment(agentUrl, segment)
  const left = endedWish(call, entries) ? leftOnFor(entries, holderOf(call)) : []
  return againWhereUnwanted(id, entries, left)
}

/**
 * What to switch off again after an activation has come on: later requests of its holder had switched it off before, as where the
 * upstream worked on it for long. Called as `unwantedNow`.
 */
export async function switchedOnLate(
  { ledger }: Pick<PromisedRecords, 'ledger'>,
  { id, agentUrl, segment }: Call,
): Promise<Decided> {
  const entries = segment === undefined ? [] : await ledger.ofSegment(agentUrl, segment)
  const on = entries.find((entry) => entry.id === id)
  if (!on) return { jobs: [], entries: [] }
  const deployments = (on.deployments ?? []) as readonly Deployment[]
  const live = createDestinationSet(deployments.filter(({ is_live }) => is_live))
  const named = createDestinationSet()
  const found = entries.flatMap((entry) => {
    const isOfHolder = nameOf(entry) === nameOf(on) && isSeenAsOne(entry, on)
    const isEnded = !isOpen(entry) && !NEVER_ON.has(entry.outcome)
    if (entry.action === 'activate' || entry.seq < on.seq || !isOfHolder || !isEnded) return []
    const destinations = wishOf(entry).filter((one) => live.overlaps(one) && !named.has(one))
    named.add(destinations)
    return destinations.length > 0 ? [{ entry, destinations }] : []
  })
  return againWhereUnwanted(id, entries, found)
}
