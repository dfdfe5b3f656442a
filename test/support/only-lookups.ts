/** Briefs for tests and benches that do not search: real lookups in the feed, and no upstream to ask. */
import { adcpError } from '../../src/adcp/answer.js'
import { createAnswerPages } from '../../src/briefs/answer-pages.js'
import { createKept } from '../../src/briefs/kept.js'
import { createLookup } from '../../src/briefs/lookup.js'
import { createStanding } from '../../src/briefs/standing.js'
import type { Feed } from '../../src/feed/feed.js'
import { systemClock } from '../../src/net/clock.js'
import type { SignalsDiscovery } from '../../src/tasks/get-signals.js'
import { judge } from './server-feed.js'

export function onlyLookups(feed: Pick<Feed, 'moment' | 'see'>): SignalsDiscovery {
  const upstreams = { statuses: () => [], roster: () => ({ entries: [] }) }
  const standing = createStanding({ upstreams, access: () => ({ scope: 'public' }), judge: () => judge })
  const rowsOf = async () => []
  const pages = createAnswerPages({
    ...{ standing, rowsOf, upstreams, asWhom: () => [] },
    ...{
      feed,
      kept: createKept({ clock: systemClock, secret: 'of the tests', onTrouble: () => {} }),
    },
  })
  return {
    lookup: createLookup({ feed, pages, rowsOf, standing }),
    discover: () => ({
      kind: 'refused',
      error: adcpError('SERVICE_UNAVAILABLE', 'Nothing is searched here.', { suggestion: 'Look up.' }),
    }),
  }
}
