import { test } from 'tap'
import { createBrief } from '../../src/briefs/brief.js'
import { readSynonyms } from '../../src/briefs/briefs.js'
import { createLocal } from '../../src/briefs/local.js'
import { createRanking } from '../../src/briefs/rank.js'
import { createStanding } from '../../src/briefs/standing.js'
import { createFeed } from '../../src/feed/feed.js'
import { systemClock } from '../../src/net/clock.js'
import { createSearchHost } from '../../src/search/search-host.js'
import { compileSynonyms } from '../../src/search/synonyms.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { createFanout } from '../../src/upstreams/fanout.js'
import { agentUrl, buyer, judgeThat, listing, sliceOf } from '../feed/world.js'
import { briefAnswer } from '../support/upstream-answers.js'

const UPSTREAMS = 20
const ROWS = 50

test('what upstreams found is merged, indexed and ranked while others are served', async (t) => {
  const judge = judgeThat({})
  const feed = createFeed({ cursorSecret: 'secret', retain: { ms: 1, bytes: 2 ** 30 } })
  const snapshot = buildSnapshot({ slices: [sliceOf('north', [listing('s0')])], judge })
  feed.publish(snapshot, 0)
  const synonyms = compileSynonyms(await readSynonyms('config/synonyms.yaml'))
  const search = createSearchHost(synonyms)
  t.teardown(search.close)
  await search.publish(snapshot)
  const ids = Array.from({ length: UPSTREAMS }, (_, at) => `agent${at}`)
  const found = (id = '') =>
    Array.from({ length: ROWS }, (_, at) => listing(`${id}_${at}`, { name: `coffee drinkers ${at}` }))
  const fanout = createFanout({
    clock: systemClock,
    call: async ({ agentUrl: url }) => briefAnswer(found(ids.find((id) => agentUrl(id) === url))),
  })
  t.teardown(fanout.close)
  const statuses = ids.map((id) => ({
    ...{ id, url: agentUrl(id), agentUrl: agentUrl(id), name: id, listings: 0, dropped: {} },
    state: 'fresh' as const,
  }))
  const whom = {
    upstreams: { statuses: () => statuses, roster: () => ({ entries: [] }) },
    access: () => ({ scope: 'public' }),
  }
  const standing = createStanding({ ...whom, judge: () => judge })
  const brief = createBrief({
    ...{ feed, fanout, standing, ...whom, clock: systemClock },
    ranking: createRanking({ local: createLocal({ search, synonyms }), synonyms, rates: () => undefined }),
  })
  const until = Date.now() + 60_000
  const inquiry = brief.ask({ signal_spec: 'coffee below $5' }, buyer, until)
  await inquiry.settled(until)

  let turns = 0
  let goesOn = true
  const serveOthers = () => {
    turns += 1
    if (goesOn) setImmediate(serveOthers)
  }
  setImmediate(serveOthers)
  const ranked = await inquiry.rank()
  goesOn = false

  t.equal(ranked?.hits.length, UPSTREAMS * ROWS)
  t.ok(turns > UPSTREAMS, `others had ${turns} turns: more than one for each upstream's rows`)
})
