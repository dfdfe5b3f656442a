/**
 * What a deactivation left on for another caller whose own activation then came to nothing: nobody wants it any more. When
 * such a wish ends, a job decides, beside which no request for the segment is under way, and the last one who wanted it off
 * asks once more (docs/activation.md, "Whose activation it is").
 */
import type { Destination } from '../adcp/signal.js'
import { type Call, callJob, callTarget, type NewCall } from '../store/jobs/calls.js'
import type { Held, NewJob } from '../store/jobs/jobs.js'
import type { EntryOfJob } from '../store/jobs/steps.js'
import type { Entry } from '../store/records/ledger.js'
import type { Store } from '../store/store.js'
import { mayOverlap } from './destination.js'
import { type Holder, holderOf, leftOnFor, standingFor } from './holders.js'
import { upstreamKey } from './request-identity.js'

const HISTORY = 1_000 // the newest entries for one segment, of all callers: what is on is among them
const NEITHER_WAY = 'neither' // opposite to both, so that it is held alone

/** What a job of this kind knows: of whom the upstream would take the same for one. */
type LeftOn = { agentUrl: string; segment: string; holder: Holder }

/** The job that decides when the wish of this call has come to nothing; undefined where that changes nothing. */
export function leftOnJob(call: Call): NewJob | undefined {
  const { agentUrl, segment, caller } = call
  const target = callTarget(call)
  if (call.args.action === 'deactivate' || segment === undefined || target === undefined) return undefined
  const data: LeftOn = { agentUrl, segment, holder: holderOf(call) }
  const id = `${call.id}.left-on` // a wish ends once
  return { id, kind: 'left_on', lane: agentUrl, target, side: NEITHER_WAY, caller, data }
}

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

export type LeftOnOptions = { store: Store }

/** Works on jobs that decide. */
export function createLeftOn({ store }: LeftOnOptions) {
  return async function decide(held: Held): Promise<void> {
    const { agentUrl, segment, holder } = held.data as LeftOn
    const entries = await store.ledger.ofSegment(agentUrl, segment, HISTORY)
    const wishes = leftOnFor(entries, holder).flatMap(({ entry, destinations }, index) => {
      const others = standingFor(entries, entry)
      const unwanted = destinations.filter((one) => !others.some((other) => mayOverlap(one, other)))
      return unwanted.length > 0 ? [again(`${held.id}.${index}`, entry, unwanted)] : []
    })
    await store.conclude({
      ...{ held, state: 'decided' },
      jobs: wishes.map(({ call }) => callJob(call)),
      entries: wishes.map(({ entry }) => entry),
    })
  }
}
