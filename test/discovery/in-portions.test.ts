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
import { answerSlice } from '../../src/upstreams/rows/found-slice.js'
import { readRows } from '../../src/upstreams/rows/read-rows.js'
import { agentUrl, buyer, judgeThat, listing, sliceOf } from '../feed/world.js'
import { briefAnswer } from '../support/upstream-answers.js'

const UPSTREAMS = 20
const ROWS = 50

/** Has others served in each turn of the loop until it is told to stop. */
function inEachTurn(serve: () => void): () => void {
  let goesOn = true
  const turn = () => {
    serve()
    if (goesOn) setImmediate(turn)
  }
  setImmediate(turn)
  return () => {
    goesOn = false
  }
}

const statusesOf = (ids: readonly string[]) =>
  ids.map((id) => ({
    ...{ id, url: agentUrl(id), agentUrl: agentUrl(id), name: id, listings: 0, dropped: {} },
    state: 'fresh' as const,
  }))

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
  const statuses = statusesOf(ids)
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
  const stop = inEachTurn(() => {
    turns += 1
  })
  const ranked = await inquiry.rank()
  stop()

  t.equal(ranked?.hits.length, UPSTREAMS * ROWS)
  t.ok(turns > UPSTREAMS, `others had ${turns} turns: more than one for each upstream's rows`)
})

test('further pages read what upstreams found once, in portions, and put it together once for a feed', async (t) => {
  const judge = judgeThat({})
  const feedOf = (name: string) =>
    buildSnapshot({ slices: [sliceOf('north', [listing('s0', { name })])], judge })
  const ids = Array.from({ length: UPSTREAMS }, (_, at) => `agent${at}`)
  const standing = createStanding({
    upstreams: { statuses: () => statusesOf(ids), roster: () => ({ entries: [] }) },
    access: () => ({ scope: 'public' }),
    judge: () => judge,
  })
  const answers = ids.map((id) => {
    const rows = Array.from({ length: ROWS }, (_, at) => Buffer.from(JSON.stringify(listing(`${id}_${at}`))))
    return answerSlice({ agentUrl: agentUrl(id), scope: 'public' }, readRows(rows), 0)
  })
  const gathered = await standing.gather(feedOf('as it was'), answers, buyer)
  t.equal(gathered.rows.length, UPSTREAMS * ROWS)

  const read = new Set<number>() // numbers of rows
  let inTurn = new Set<number>()
  let most = 0
  const rows = gathered.rows.map(({ listing: text, ...row }, at) => ({
    ...row,
    get listing() {
      read.add(at)
      inTurn.add(at)
      return text
    },
  }))
  const stop = inEachTurn(() => {
    most = Math.max(most, inTurn.size)
    inTurn = new Set()
  })
  const pages = (feed: ReturnType<typeof feedOf>) =>
    Promise.all([1, 2, 3].map(() => standing.corpusOf(feed, rows, buyer)))
  const first = await pages(feedOf('as it is'))
  t.equal(read.size, UPSTREAMS * ROWS)
  t.ok(most <= (UPSTREAMS * ROWS) / 10, `${most} rows were read in one turn`)
  read.clear()
  const next = await pages(feedOf('as it will be'))
  stop()
  t.equal(read.size, 0, 'a new feed has no row read again')
  for (const [of, ...others] of [first, next]) {
    t.equal(of?.extra?.count, UPSTREAMS * ROWS)
    for (const { extra } of others) t.ok(extra === of?.extra, 'pages at the same time share it')
  }
})
