/** How upstreams are doing, for tests of what is said about it: no account, no registry. */
import type { Health } from '../../src/feed/incomplete.js'
import type { UpstreamStatus } from '../../src/upstreams/mirror/scope-status.js'

export function healthOf(statuses: () => readonly UpstreamStatus[]): Health {
  return { statuses, statusesOf: () => [], silentRegistries: () => [] }
}
