/**
 * What a deactivation left on for another caller whose own activation then came to nothing: nobody wants it any more, so the
 * last one who wanted it off asks once more (docs/activation.md, "Whose activation it is"). It is decided where an ending is
 * written, beside which no request for the segment is written down: whatever is asked for later comes after it.
 */
import type { Destination } from '../adcp/signal.js'
import { type Call, callJob, type NewCall } from '../store/jobs/calls.js'
import type { Entry } from '../store/records/ledger.js'
import type { Repositories } from '../store/repositories.js'
import type { Decided, EntryOfJob } from '../store/steps.js'
import { mayOverlap } from './destination.js'
import { holderOf, leftOnFor, standingFor } from './holders.js'
import { upstreamKey } from './request-identity.js'

const HISTORY = 1_000 // the newest entries for one segment, of all callers: what is on is among them

/** The deactivation once more, for what of it nobody else has on. */
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

/** What is to be switched off now that the call has ended: its wish came to nothing, or it left something on. */
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
