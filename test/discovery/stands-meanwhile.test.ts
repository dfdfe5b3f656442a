import { test } from 'tap'
import { createStanding } from '../../src/briefs/standing.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { rowAt } from '../../src/snapshot/snapshot.js'
import type { RosterEntry } from '../../src/upstreams/roster/roster.js'
import { answerSlice } from '../../src/upstreams/rows/found-slice.js'
import { readRows } from '../../src/upstreams/rows/read-rows.js'
import { agentUrl, buyer, judgeThat, listing, sliceOf } from '../feed/world.js'

test('what changes while answers are put together counts for the pages of these answers', async (t) => {
  const judge = judgeThat({})
  const feed = buildSnapshot({ slices: [sliceOf('south', [listing('s1')])], judge })
  const north = { id: 'north', agentUrl: agentUrl('north'), url: agentUrl('north'), name: 'north' }
  const entry = (accountPrices: 'public' | 'withheld') =>
    ({ ...north, auth: { type: 'none' }, accountPrices }) as RosterEntry
  let entries = [entry('public')]
  const statuses = [{ ...north, listings: 0, dropped: {}, state: 'fresh' as const }]
  const { gather, corpusOf } = createStanding({
    upstreams: { statuses: () => statuses, roster: () => ({ entries }) },
    access: () => ({ scope: 'public' }),
    judge: () => judge,
  })
  const read = readRows([Buffer.from(JSON.stringify(listing('s2')))])
  const asked = { agentUrl: north.agentUrl, scope: 'public' }
  const said = answerSlice(asked, { ...read, pricedFor: 'none' }, 0)
  const gathering = gather(feed, [said], buyer)
  entries = [entry('withheld')]
  const { rows } = await gathering
  t.equal(rows.length, 1)
  const { extra } = await corpusOf(feed, rows, buyer)
  t.notMatch(JSON.stringify(extra && rowAt(extra, 0)), /pricing_option_id/)
})
