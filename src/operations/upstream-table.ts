/** What each upstream gives to the feed and why not more, in words: for the start table and the console. */

import type { Contribution } from '../explain/contributions.js'
import { whyNotMore } from '../explain/remedies.js'
import { notesOf, rowsRead, type UpstreamStatus } from '../upstreams/agent/status.js'

export const UPSTREAM_HEADER = ['upstream', 'state', 'read', 'published', 'why not more'] as const

/** One row an upstream, in the order of the header. */
export function upstreamTable(
  statuses: readonly UpstreamStatus[],
  contributions: readonly Contribution[],
): string[][] {
  const given = new Map(contributions.map((each) => [each.upstream, each]))
  return statuses.map((status) => {
    const { id, state, problem, dropped } = status
    const { published = 0, reasons = [], hint } = given.get(id) ?? {}
    const why = whyNotMore({ problem, withheld: reasons, hint, notes: notesOf(status), dropped })
    return [id, state, rowsRead(status), String(published), why]
  })
}
