/** The logic of a well-behaved current agent: pages, cursors, tokens (specification, "get_signals"). */
import type { TaskHandler } from './upstream-agent.js'

export const CAPABILITIES = {
  status: 'completed',
  adcp: { major_versions: [3], supported_versions: ['3.0', '3.1'] },
  supported_protocols: ['signals'],
  signals: { discovery_modes: ['brief', 'wholesale'] },
  wholesale_feed_versioning: { supported: true },
}

export function wholesaleAgent(initial: readonly Record<string, unknown>[], initialVersion: string) {
  let rows = initial
  let version = initialVersion
  let pages = 0

  const handle: TaskHandler = (task, args) => {
    if (task === 'get_adcp_capabilities') return CAPABILITIES
    if (task !== 'get_signals') return undefined
    const tokens = { status: 'completed', wholesale_feed_version: version, cache_scope: 'public' }
    if (args.if_wholesale_feed_version === version) return { ...tokens, unchanged: true }
    pages += 1
    const { max_results: size = 50, cursor } = args.pagination as { max_results?: number; cursor?: string }
    const from = Number(cursor ?? 0)
    const to = from + Math.min(size, 100)
    const more = to < rows.length
    return {
      ...tokens,
      signals: rows.slice(from, to),
      pagination: { has_more: more, total_count: rows.length, ...(more && { cursor: String(to) }) },
    }
  }

  return {
    handle,
    /** Pages of rows that were sent. */
    pages: () => pages,
    publish(next: readonly Record<string, unknown>[], nextVersion: string) {
      rows = next
      version = nextVersion
    },
  }
}
