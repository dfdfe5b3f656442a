/**
 * What an answer lacks because an upstream lacks it (specification, "IncompleteEntry"): one entry an upstream that is
 * not fresh, with the reason in our closed words. The upstream's own error text stays out: it is not ours to vouch for.
 */
import { type Duration, durationOf } from '../../adcp/duration.js'
import type { UpstreamFailure, UpstreamStatus } from '../../upstreams/status.js'

export type IncompleteEntry = {
  scope: 'signals' | 'pricing' | 'wholesale_feed'
  description: string
  estimated_wait?: Duration
}

/** Each failure in words that may be shown to anybody. */
export const REASONS: Record<UpstreamFailure, string> = {
  refused: 'our egress policy does not let us reach it',
  unresolvable: 'its host name does not resolve',
  unreachable: 'it cannot be reached',
  timeout: 'it did not answer in time',
  too_large: 'its answer was too large',
  unauthorized: 'it refuses our credentials',
  rate_limited: 'it limits how often we may ask',
  server_error: 'it answers with a server error',
  not_an_agent: 'nothing at its url speaks MCP or A2A',
  protocol_error: 'its answers cannot be read',
  agent_error: 'it answers with an error',
  cursor_loop: 'its pages go round in a loop',
  endless_feed: 'its feed does not end',
  unstable_feed: 'its feed kept changing while it was read',
  incomplete_feed: 'it says itself that its feed is not complete',
  backing_off: 'it failed moments ago and is given time',
  aborted: 'reading it was broken off',
  unknown_upstream: 'it has left the roster',
  not_enumerable: 'its signals can only be found by questions that nobody has given us',
}

function descriptionOf({ id, state, problem }: UpstreamStatus): string {
  const why = problem ? `: ${REASONS[problem.reason]}` : ''
  if (state === 'starting') return `${id} has not been read yet; its signals are missing.`
  if (state === 'absent') return `${id} is absent${why}; its signals are missing.`
  return `${id} is stale${why}; its signals are as they were last read.`
}

/** One entry for each upstream whose part is missing or old; undefined when there is none. */
export function incompleteOf(
  statuses: readonly UpstreamStatus[],
  scope: IncompleteEntry['scope'],
  now: number,
): IncompleteEntry[] | undefined {
  let entries: IncompleteEntry[] | undefined
  for (const status of statuses) {
    if (status.state === 'fresh') continue
    const entry: IncompleteEntry = { scope, description: descriptionOf(status) }
    const wait = (status.nextAttemptAt ?? now) - now
    if (wait > 0) entry.estimated_wait = durationOf(wait)
    entries ??= []
    entries.push(entry)
  }
  return entries
}
