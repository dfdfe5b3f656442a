/** A call of an upstream that is promised to a caller, and the job that carries it out. */
import { hash } from 'node:crypto'
import type { Destination } from '../adcp/signal.js'
import type { Held, Job, NewJob } from './jobs.js'

type CallState =
  | 'open' // sent or about to be sent; its outcome is not known
  | 'answered'
  | 'refused' // the upstream refused it for good, or it can never be sent
  | 'superseded' // a later, opposite request replaced it before it was answered
  | 'abandoned' // its effect is unknown, and sending it again could cause it twice

export type NewCall = {
  id: string
  caller: string
  /** The caller's idempotency key; empty for a call that no request asked for. */
  key: string
  task: 'activate_signal' | 'report_usage'
  /** Canonical url. */
  agentUrl: string
  /** The idempotency key that the upstream sees. */
  upstreamKey: string
  /** The upstream's segment that the call changes; absent when calls do not affect each other. */
  segment?: string
  /** How the upstream sees the caller: by a credential of the caller's own, or by the one that callers share. */
  seenAs: 'own' | 'shared'
  /** It goes with a credential, and never in nobody's name. Absent where none is configured, and in calls of an earlier release. */
  isCredentialed?: true
  /** The caller's account reference, canonical JSON. */
  account?: string
  args: Record<string, unknown>
  /** Which rows of the caller's request the call carries (report_usage). */
  rows: readonly number[]
  /** The name of the segment, for finding it at agents that only answer questions. */
  name?: string
  /** Destinations that stay on, because other callers have them on, or its own caller wants them on again. */
  kept?: readonly Destination[]
  /** Destinations that its caller had switched off again before it was sent. */
  reversed?: readonly Destination[]
}

const DATA = [
  'task',
  'agentUrl',
  'upstreamKey',
  'segment',
  'seenAs',
  'isCredentialed',
  'account',
  'args',
  'rows',
  'name',
  'kept',
  'reversed',
] as const

/** The members of a call that only the job's data holds. */
type CallData = Pick<NewCall, (typeof DATA)[number]>

export type Call = NewCall &
  Pick<Job, 'seq' | 'attempts' | 'createdAt'> & {
    state: CallState
    answer?: unknown
    /** Absent for a call that is only read. */
    held?: Held
  }

/**
 * The idempotency key of a new call at its upstream. Each use of a caller's key is a call of its own, so a key that is used again is
 * another request there; repetitions of a call have the key that is stored with it. Upstreams never see callers' own keys.
 */
export const upstreamKey = (callId: string) => `trb_${hash('sha256', callId, 'base64url')}`

/** The shared target of calls on one segment, when the upstream cannot tell their callers apart. */
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
