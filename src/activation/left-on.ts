/**
 * A deactivation may leave a destination on for another caller whose own activation then fails. Nobody wants the
 * destination any more, so the last caller who wanted it off asks again (docs/activation.md, "Whose activation it is").
 * This is decided in the transaction that stores an ending: until it commits, no request for the segment can be stored,
 * so later requests come after it.
 */
import type { Destination } from '../adcp/signal.js'
import { type Call, callJob, type NewCall } from '../store/jobs/calls.js'
import type { Entry } from '../store/records/ledger.js'
import type { Repositories } from '../store/repositories.js'
import type { Decided, EntryOfJob } from '../store/steps.js'
import { mayOverlap } from './destination.js'
import { holderOf, leftOnFor, standingFor } from './holders.js'
import { upstreamKey } from './request-identity.js'

const HISTORY = 1_000 // the newest entries of all callers for one segment: active ones are among them

/** The deactivation again, for the part that nobody else has on. */
function again(id: string, ended: Entry, destinations: readonly Destination[]) {
  const { caller, account, agentUrl, segmentId, seenAs, upstreamAccount } = ended
  const call: NewCall = {
    ...{ id, caller, key: '', task: 'activate_signal', agentUrl, seenAs },
    ...{ upstreamKey: upstreamKey(caller, id, '', agentUrl), segment: segmentId, rows: [] },
    ...(account !== undefined && { account }),
    args: {
      ...{ action: 'deactivate', signal_agent_segment_id: segmentId, destinations },
      ...(upstreamAccount !== undefined && { account: upstreamAccount }),
    },
  }
  const entry: EntryOfJob = { ...ended, id, destinations }
  return { call, entry }
}

/** What to switch off after the call has ended: its wish failed, or it left something on. */
export async function unwantedNow({ ledger }: Pick<Repositories, 'ledger'>, call: Call): Promise<Decided> {
  const { id, agentUrl, segment } = call
  if (segment === undefined || !(await ledger.wasLeftOn(agentUrl, segment))) return { jobs: [], entries: [] }
  const entries = await ledger.ofSegment(agentUrl, segment, HISTORY)
  const wishes = leftOnFor(entries, holderOf(call)).flatMap(({ entry, destinations }, index) => {
    const others = standingFor(entries, entry)
    const unwanted = destinations.filter((one) => !others.some((other) => mayOverlap(one, other)))
    return unwanted.length > 0 ? [again(`${id}.off.${index}`, entry, unwanted)] : []
  })
  return { jobs: wishes.map((wish) => callJob(wish.call)), entries: wishes.map(({ entry }) => entry) }
}
