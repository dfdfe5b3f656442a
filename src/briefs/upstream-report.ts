/**
 * What each upstream contributed to an answer: by name and reason in `ext.tributary.upstreams[]`, and missing parts in
 * `incomplete[]` (specification, "IncompleteEntry"). The words are ours; an upstream's error text is not repeated.
 */
import { type Duration, durationOf } from '../adcp/duration.js'
import type { AdcpWarning } from '../adcp/error.js'
import type { UpstreamFailure, UpstreamStatus } from '../upstreams/agent/status.js'
import type { UpstreamAnswer } from '../upstreams/fanout.js'

export type UpstreamReport = {
  id: string
  outcome: 'answered' | 'submitted' | 'failed' | 'pending' | 'not_asked'
  reason?: UpstreamFailure | 'no_time' | 'busy' | 'absent' | 'deadline'
  /** Signals it found. */
  found?: number
  took_ms?: number
}

export type Missing = { scope: 'signals'; description: string; estimated_wait?: Duration }

const GUESS_MS = 5_000 // when its usual time is not known

/** `found`: how many signals of its answer could be used. */
export function reportOf(id: string, answer: UpstreamAnswer, found: number): UpstreamReport {
  if (answer.kind === 'answered') return { id, outcome: 'answered', found, took_ms: answer.tookMs }
  if (answer.kind === 'submitted') return { id, outcome: 'submitted', took_ms: answer.tookMs }
  if (answer.kind === 'failed') {
    return { id, outcome: 'failed', reason: answer.reason, took_ms: answer.tookMs }
  }
  if (answer.kind === 'not_asked') return { id, outcome: 'not_asked', reason: answer.reason }
  return { id, outcome: 'pending', reason: 'deadline' }
}

const NOT_ASKED = {
  no_time: 'usually takes longer than the time given',
  busy: 'has too many questions waiting',
  absent: 'is absent',
} as const

function why(answer: UpstreamAnswer): string {
  if (answer.kind === 'pending') return 'has not answered yet'
  if (answer.kind === 'submitted') return 'is still working on it'
  if (answer.kind === 'not_asked') return NOT_ASKED[answer.reason]
  return answer.kind === 'failed' ? `failed (${answer.reason})` : ''
}

function wait(answer: UpstreamAnswer): number | undefined {
  if (answer.kind === 'failed') return answer.retryAfterMs
  if (answer.kind === 'answered') return undefined
  if (answer.kind === 'not_asked' && answer.reason === 'absent') return undefined // its time is not known
  return ('typicalMs' in answer ? answer.typicalMs : undefined) ?? GUESS_MS
}

/** Undefined when the upstream has answered. */
export function missingOf(id: string, answer: UpstreamAnswer): Missing | undefined {
  if (answer.kind === 'answered') return undefined
  const waitMs = wait(answer)
  return {
    scope: 'signals',
    description: `${id} ${why(answer)}; signals that only it knows are missing.`,
    ...(waitMs !== undefined && { estimated_wait: durationOf(waitMs) }),
  }
}

const MOST_NAMED = 20

/**
 * One warning that names the stale upstreams whose rows are in the feed (specification, "Errors": STALE_DATA); none when
 * there are no such upstreams.
 */
export function staleWarnings(statuses: readonly UpstreamStatus[]): AdcpWarning[] {
  const stale = statuses.filter(({ state, listings }) => state === 'stale' && listings > 0)
  if (stale.length === 0) return []
  const names = stale.slice(0, MOST_NAMED).map(({ id }) => id)
  const more = stale.length > names.length ? ` and ${stale.length - names.length} more` : ''
  const message = `What comes from ${names.join(', ')}${more} may be outdated: it is as it was last read.`
  return [{ code: 'STALE_DATA', severity: 'warning', message }]
}
