/**
 * What an answer lacks because an upstream lacks it (specification, "IncompleteEntry"): one entry an upstream that is
 * not fresh, with the reason in our closed words. The upstream's own error text stays out: it is not ours to vouch for.
 */
import { type Duration, durationOf } from '../../adcp/duration.js'
import { PARTS, type Part } from '../../upstreams/rows/slice.js'
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
  shrunken_feed: 'most of its signals are gone from its answer, which is believed when it says so again',
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

const PART_WORDS: Record<Part, string> = { pricing: 'prices', coverage: 'coverage estimates' }

/** The protocol has a scope for prices and none for coverage, which is told under the scope of the answer. */
function outageEntries({ id, outages = {} }: UpstreamStatus, scope: IncompleteEntry['scope']) {
  return PARTS.filter((part) => outages[part] !== undefined).map(
    (part): IncompleteEntry => ({
      scope: part === 'pricing' ? part : scope,
      description:
        outages[part] === 0
          ? `${id} has not given its ${PART_WORDS[part]} yet.`
          : `${id} cannot give its ${PART_WORDS[part]} at the moment; those that it last gave stand.`,
    }),
  )
}

/** One entry for each upstream whose part is missing or old; undefined when there is none. */
export function incompleteOf(
  statuses: readonly UpstreamStatus[],
  scope: IncompleteEntry['scope'],
  now: number,
): IncompleteEntry[] | undefined {
  let entries: IncompleteEntry[] | undefined
  for (const status of statuses) {
    if (status.outages) entries = [...(entries ?? []), ...outageEntries(status, scope)]
    if (status.state === 'fresh') continue
    const entry: IncompleteEntry = { scope, description: descriptionOf(status) }
    const wait = (status.nextAttemptAt ?? now) - now
    if (wait > 0) entry.estimated_wait = durationOf(wait)
    entries ??= []
    entries.push(entry)
  }
  return entries
}
