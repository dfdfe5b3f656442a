/**
 * Calls that change something at an upstream, as jobs: written down with their derived key before they are made, and
 * with their answer after, so that each happens once.
 */
import { hash } from 'node:crypto'
import type { Destination } from '../../adcp/signal.js'
import type { Held, Job, NewJob } from './jobs.js'

type CallState =
  | 'open' // made or about to be made; what came of it is not known
  | 'answered'
  | 'refused' // the upstream, or our way to it, said no for good
  | 'superseded' // a later, opposite request took its place before it was answered
  | 'abandoned' // whether it acted is not known, and asking again could make it act twice

export type NewCall = {
  id: string
  caller: string
  /** The caller's idempotency key. */
  key: string
  task: 'activate_signal' | 'report_usage'
  /** Canonical url. */
  agentUrl: string
  /** The idempotency key the upstream sees. */
  upstreamKey: string
  /** The upstream's segment that the call acts on; absent when calls do not bear on each other. */
  segment?: string
  /** As whom the upstream sees the caller: by a credential of the caller's own, or by the one that callers share. */
  seenAs: 'own' | 'shared'
  /** The caller's account reference, canonical JSON. */
  account?: string
  args: Record<string, unknown>
  /** Which rows of the caller's request the call carries (report_usage). */
  rows: readonly number[]
  /** What the segment is called, for finding it where only questions are answered. */
  name?: string
  /** Destinations that are left on, because others have them on too. */
  kept?: readonly Destination[]
}

const DATA = [
  'task',
  'agentUrl',
  'upstreamKey',
  'segment',
  'seenAs',
  'account',
  'args',
  'rows',
  'name',
  'kept',
] as const

/** What of a call only the job's data holds. */
type CallData = Pick<NewCall, (typeof DATA)[number]>

export type Call = NewCall &
  Pick<Job, 'seq' | 'attempts' | 'createdAt'> & {
    state: CallState
    answer?: unknown
    /** Absent for one that is only read. */
    held?: Held
  }

/** What calls on one segment have in common where the upstream cannot tell their callers apart. */
export function callTarget({ agentUrl, segment, seenAs, caller }: NewCall): string | undefined {
  if (segment === undefined) return undefined
  const seen = seenAs === 'own' ? caller : ''
  return hash('sha256', JSON.stringify([agentUrl, seen, segment]), 'base64url')
}

/** The job that carries the call out. */
export function callJob(call: NewCall): NewJob {
  const { id, caller, key, agentUrl } = call
  const target = callTarget(call)
  const side = call.args.action === 'deactivate' ? 'off' : 'on'
  const data = Object.fromEntries(
    DATA.flatMap((name) => (call[name] === undefined ? [] : [[name, call[name]]])),
  )
  return {
    id,
    kind: 'call',
    lane: agentUrl,
    caller,
    key,
    data,
    ...(target !== undefined && { target, side }),
  }
}

/** The call that a job carries out. */
export function readCall(job: Job | Held): Call {
  const { id, caller, key, seq, attempts, createdAt, answer } = job
  return {
    ...{ id, caller, key, seq, attempts, createdAt },
    ...(job.data as CallData),
    state: job.state as CallState,
    ...(answer !== undefined && { answer }),
    ...('owner' in job && { held: job }),
  }
}
