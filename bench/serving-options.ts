/** The product's server as benches run it: a feed, two callers, and upstreams that are well and never read. */
import { hash } from 'node:crypto'
import { pino } from 'pino'
import type { Feed } from '../src/feed/feed.js'
import type { ServerOptions } from '../src/server/app.js'
import { type AdmissionOptions, createAdmission } from '../src/server/door/admission.js'
import type { UpstreamStatus } from '../src/upstreams/mirror/scope-status.js'
import { healthOf } from '../test/support/health.js'
import { noWayOut } from '../test/support/no-way-out.js'
import { onlyLookups } from '../test/support/only-lookups.js'

/** Of the callers: one with an account that has one price in a hundred of its own, and one who may see keys. */
export const TOKENS = { bench: 'bench', granted: 'granted' } as const
export const ACCOUNT = 'acc_bench'

/** Every answer looks at how its upstreams are doing. */
const UPSTREAMS: readonly UpstreamStatus[] = Array.from({ length: 20 }, (_, at) => {
  const agentUrl = `https://upstream-${at}.example/mcp`
  return {
    ...{ id: `upstream-${at}`, url: agentUrl, agentUrl, name: `Upstream ${at}` },
    ...{ state: 'fresh', listings: 1_000, dropped: {} },
  }
})

export function servingOptions(feed: Feed, rateLimit: AdmissionOptions['rateLimit']): ServerOptions {
  const keyOf = (id: 'bench' | 'granted') => ({
    id,
    tokenSha256: hash('sha256', TOKENS[id], 'hex'),
    role: 'buyer' as const,
  })
  return {
    publicUrl: 'http://127.0.0.1',
    version: '0',
    feed,
    upstreams: healthOf(() => UPSTREAMS),
    discovery: onlyLookups(feed),
    facts: () => ({ providerDomains: [], servesOwned: false, accountOverlays: false }),
    admission: createAdmission({
      callers: {
        anonymous: 'metadata',
        keys: [
          { ...keyOf('bench'), accounts: { [ACCOUNT]: {} } },
          { ...keyOf('granted'), destinations: [{ type: 'platform', platform: 'dv360' }] },
        ],
      },
      ...(rateLimit && { rateLimit }),
      send: noWayOut,
      now: Date.now,
    }),
    ...{ trustedProxies: [], tasks: [], previews: [], replayTtlSeconds: 86_400, now: Date.now },
    declaredAccounts: async () => false,
    isStopping: () => false,
    log: pino({ level: 'silent' }),
  }
}
