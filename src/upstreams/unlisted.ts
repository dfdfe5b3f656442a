/**
 * Agents that left the roster, or were taken out of it. They are not read any more, but what was activated there can be
 * switched off: a caller with such an agent's canonical url can still call it, through the same egress guard.
 */
import { LRUCache } from 'lru-cache'
import { agentUrlOf, canonicalUrl } from '../adcp/url.js'
import type { Runner } from './mirror/runner.js'
import type { RosterEntry, StaticUpstream } from './roster/roster.js'

const MOST_UNLISTED = 64

/** The agent's entry in the configuration, which may describe an agent and exclude it. */
function entryOf(agentUrl: string, statics: readonly StaticUpstream[]): RosterEntry {
  const { url, protocol, auth, accountPrices } = statics.find((one) => agentUrlOf(one.url) === agentUrl) ?? {
    url: agentUrl,
  }
  return {
    ...{ id: agentUrl, agentUrl, name: agentUrl, url },
    ...{ auth: auth ?? { type: 'none' }, seeds: [], source: 'static', verified: false },
    ...(protocol && { protocol }),
    ...(accountPrices && { accountPrices }),
  }
}

/** `make` creates a runner that is never started. */
export function createUnlisted(make: (entry: RosterEntry) => Runner) {
  const runners = new LRUCache<string, Runner>({
    max: MOST_UNLISTED,
    dispose: (runner) => void runner.close(),
  })

  return {
    /** Undefined when it is not a canonical url. */
    at(agentUrl: string, statics: readonly StaticUpstream[]): Runner | undefined {
      if (canonicalUrl(agentUrl) !== agentUrl) return undefined
      const runner = runners.get(agentUrl) ?? make(entryOf(agentUrl, statics))
      runners.set(agentUrl, runner)
      return runner
    },
    /** Lets go of all of them. */
    clear: () => runners.clear(),
  }
}
