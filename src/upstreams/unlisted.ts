/**
 * Agents that left the roster, or were taken out of it. Nothing is read from them, but what was activated there can be
 * switched off: whoever knows such an agent's canonical url can still call it, through the same guard.
 */
import { LRUCache } from 'lru-cache'
import { agentUrlOf, canonicalUrl } from '../adcp/url.js'
import type { Runner } from './mirror/runner.js'
import type { RosterEntry, StaticUpstream } from './roster/roster.js'

const MOST_UNLISTED = 64

/** As the configuration describes it, which may say how it is spoken to and exclude it all the same. */
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

/** `make` gives a runner that is never started. */
export function createUnlisted(make: (entry: RosterEntry) => Runner) {
  const runners = new LRUCache<string, Runner>({
    max: MOST_UNLISTED,
    dispose: (runner) => void runner.close(),
  })

  return {
    /** Undefined when it is no canonical url. */
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
