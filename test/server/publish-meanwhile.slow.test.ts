/**
 * An answer that has to look at every signal does so in portions. When another state of the feed is published between two of
 * them, the answer stays with the one it began on: it neither looks at the other in one stop nor begins again.
 */
import { test } from 'tap'
import { explainView } from '../../src/explain/signal.js'
import type { Reader, Selection } from '../../src/feed/query.js'
import { feedOf, listing } from '../support/server-feed.js'
import { type FixtureFeed, startServer } from '../support/server-fixture.js'

const SIGNALS = 8_400 // more than a portion
const BUYER: Reader = { caller: 'buyer', visibility: 'full', grants: [] }
const FILTER = { filters: { max_cpm: 2 } }
const priced = (cpm: number) => ({
  listings: Array.from({ length: SIGNALS }, (_, at) => listing(`s${at}`, cpm)),
})
const FIRST = priced(1)
const NEXT = priced(1.5)

/** A feed whose prices are other ones as soon as an answer has looked at a portion of it. */
function movingFeed(): FixtureFeed & { published(): number; isLookedAt(query: Selection): boolean } {
  const feed = feedOf(FIRST)
  let published = 0
  function* moving(work: Iterator<unknown, void>): Generator<undefined, void> {
    for (let portion = 0; !work.next().done; portion += 1) {
      yield
      if (portion > 0 || published > 0) continue
      published += 1
      feed.publishContent(NEXT, Date.now())
    }
  }
  const preparing: FixtureFeed['preparing'] = (...asked) => {
    const due = feed.preparing(...asked)
    return due && { at: due.at, work: moving(due.work) }
  }
  return {
    ...feed,
    preparing,
    published: () => published,
    isLookedAt: (query) => feed.preparing(query, BUYER, Date.now()) === undefined,
  }
}

type Row = { pricing_options: { cpm: number }[] }
const prices = ({ signals }: { signals: Row[] }) => [
  ...new Set(signals.map(({ pricing_options: [option] }) => option?.cpm)),
]

test('a page, and the walk that it begins, stay with the state they began on', async (t) => {
  const feed = movingFeed()
  const { call } = await startServer(t, { feed })
  const first = await call('get_signals', { discovery_mode: 'wholesale', ...FILTER })
  t.equal(feed.published(), 1)
  t.same(prices(first), [1])
  t.notOk(feed.isLookedAt(FILTER), 'nothing of the newer state was looked at in the same stop')
  const { cursor } = first.pagination
  const next = await call('get_signals', { discovery_mode: 'wholesale', ...FILTER, pagination: { cursor } })
  t.equal(next.pricing_version, first.pricing_version)
  t.same(prices(next), [1])
  const again = await call('get_signals', { discovery_mode: 'wholesale', ...FILTER })
  t.same(prices(again), [1.5], 'who asks afterwards is told of the newer one')
})

test('signals that are looked up by their references, too', async (t) => {
  const feed = movingFeed()
  const { call } = await startServer(t, { feed })
  const refs = [{ scope: 'data_provider', data_provider_domain: 'p.example', signal_id: 's7' }]
  const answer = await call('get_signals', { signal_refs: refs, ...FILTER })
  t.equal(feed.published(), 1)
  t.same(prices(answer), [1])
  t.notOk(feed.isLookedAt(FILTER), 'nothing of the newer state was looked at in the same stop')
})

test('what a caller sees is explained in portions, too', async (t) => {
  const feed = feedOf(FIRST)
  let published = 0
  const explained = explainView({
    feed: {
      lookup: feed.lookup,
      async prepared(query, reader) {
        const at = await feed.prepared(query, reader)
        published += 1
        feed.publishContent(priced(1 + published), Date.now())
        return at
      },
    },
    signal: {
      ref: { scope: 'data_provider', data_provider_domain: 'p.example', signal_id: 's7' },
      ...{ offers: [], deployments: [] },
    } as never,
    reader: BUYER,
    isDenied: false,
    selection: FILTER,
  })
  t.same((await explained).filtered_by, [])
  t.ok(feed.preparing(FILTER, BUYER, 0), 'nothing of the newer state was looked at in one stop')
})

test('others are answered between two portions', async (t) => {
  const feed = feedOf(FIRST)
  let isAnswered = false
  let begin = () => {}
  const begun = new Promise<void>((resolve) => {
    begin = resolve
  })
  function* lasting(work: Iterator<unknown, void>): Generator<undefined, void> {
    begin()
    for (let stops = 0; !isAnswered && stops < 1_000_000; stops += 1) yield
    while (!work.next().done) yield
  }
  const preparing: FixtureFeed['preparing'] = (...asked) => {
    const due = feed.preparing(...asked)
    return due && { at: due.at, work: lasting(due.work) }
  }
  const { call, send } = await startServer(t, { feed: { ...feed, preparing } })
  const order: string[] = []
  const long = call('get_signals', { discovery_mode: 'wholesale', ...FILTER }).then(() => order.push('long'))
  await begun
  t.equal((await send('/healthz', {})).status, 200)
  order.push('short')
  isAnswered = true
  await long
  t.same(order, ['short', 'long'])
})
