/** The warning that some rows may be outdated (specification, "Errors": STALE_DATA). */
import type { AdcpWarning } from '../adcp/error.js'
import type { UpstreamStatus } from '../upstreams/status.js'

const MOST_NAMED = 20

/** One warning that names the stale upstreams whose rows are in the feed; none when there are none. */
export function staleWarnings(statuses: readonly UpstreamStatus[]): AdcpWarning[] {
  const stale = statuses.filter(({ state, listings }) => state === 'stale' && listings > 0)
  if (stale.length === 0) return []
  const names = stale.slice(0, MOST_NAMED).map(({ id }) => id)
  const more = stale.length > names.length ? ` and ${stale.length - names.length} more` : ''
  const message = `What comes from ${names.join(', ')}${more} may be outdated: it is as it was last read.`
  return [{ code: 'STALE_DATA', severity: 'warning', message }]
}
