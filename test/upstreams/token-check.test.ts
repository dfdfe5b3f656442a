import { type Test, test } from 'tap'
import { NO_ROWS } from '../../src/upstreams/rows/read-rows.js'
import { type Slice, sliceListing } from '../../src/upstreams/rows/slice.js'
import { createSpotCheck } from '../../src/upstreams/walk/spot-check.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { startMcpAgent, type TaskHandler } from '../support/upstream-agent.js'
import { createManualClock } from '../support/upstream-clock.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { configOf, openUpstreams, row, rows, until } from '../support/upstream-world.js'

const REFRESH_MS = 60_000
const LOOK_MS = 20 * 60_000
const DAY_MS = 24 * 60 * 60_000

const dearer = (at: number) =>
  row(at, { pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: 9, currency: 'USD' }] })

/** One agent, on a clock that is moved from refresh to refresh. */
async function world(t: Test, count: number, handler?: (feed: TaskHandler) => TaskHandler) {
  const feed = wholesaleAgent(rows(count), 'v1')
  const agent = await startMcpAgent(handler ? handler(feed.handle) : feed.handle)
  t.teardown(agent.close)
  const folder = await temporaryFolder(t)
  const time = createManualClock()
  const open = async () => {
    const opened = await openUpstreams(
      t,
      configOf([{ id: 'a', url: agent.url }], { refreshMs: REFRESH_MS, staleAfterMs: DAY_MS }),
      { clock: time.clock, folder, random: () => 0.5 },
    )
    await opened.upstreams.start()
    const status = () => opened.upstreams.statuses()[0]
    const scheduled = () => (status()?.nextAttemptAt ?? 0) > time.clock.now()
    await until('the first refresh', scheduled)
    return {
      ...opened,
      status,
      slice: () => opened.upstreams.slices()[0],
      prices: () => {
        const slice = opened.upstreams.slices()[0]
        if (!slice) return []
        return Array.from({ length: slice.rows.count }, (_, at) => {
          const [option] = sliceListing(slice, at).pricing_options ?? []
          return (option as { cpm?: number } | undefined)?.cpm
        })
      },
      /** To the next refresh after `ms`, and until it is over. */
      async refreshedAfter(ms: number) {
        const wait = (status()?.nextAttemptAt ?? 0) - time.clock.now()
        time.advance(Math.max(ms, wait))
        await until('a refresh', () => scheduled())
      },
    }
  }
  return { feed, open, time }
}

test('a price that changed under an unchanged token is found, and the agent is not believed from then on', async (t) => {
  const { feed, open } = await world(t, 3)
  const first = await open()
  await first.refreshedAfter(0)
  feed.publish([row(0), dearer(1), row(2)], 'v1')
  await first.refreshedAfter(0)
  t.same(first.prices(), [2, 2, 2], 'not every refresh looks')
  await first.refreshedAfter(LOOK_MS)
  t.same(first.prices(), [2, 9, 2])
  t.ok(first.status()?.caughtAt, 'and it is known')
  t.match(first.trouble, [/^a: its rows changed under an unchanged wholesale_feed_version/])

  feed.publish([row(0), dearer(1), dearer(2)], 'v1')
  await first.refreshedAfter(0)
  t.same(first.prices(), [2, 9, 9], 'it is read in full at each refresh')
  await first.close()

  const second = await open()
  t.ok(second.status()?.caughtAt, 'another process knows it too')
  feed.publish([dearer(0), dearer(1), dearer(2)], 'v1')
  await second.refreshedAfter(0)
  t.same(second.prices(), [9, 9, 9])
})

test('an agent that moves its token with its rows is believed again after a week', async (t) => {
  const { feed, open, time } = await world(t, 3)
  const { refreshedAfter, status, slice } = await open()
  feed.publish([dearer(0), row(1), row(2)], 'v1')
  await refreshedAfter(0)
  t.ok(status()?.caughtAt)
  time.advance(0)
  await refreshedAfter(7 * DAY_MS)
  t.equal(status()?.caughtAt, undefined)
  await refreshedAfter(LOOK_MS + REFRESH_MS)
  const pages = feed.pages()
  await refreshedAfter(0)
  t.equal(feed.pages(), pages, 'its token answers')
  t.equal(slice()?.rows.count, 3)
})

test('what changed while nobody looked is found when the process starts', async (t) => {
  const { feed, open } = await world(t, 250)
  const first = await open()
  await first.close()
  feed.publish([dearer(0), ...rows(250).slice(1)], 'v1')
  const second = await open()
  t.equal(second.prices()[0], 9)
  t.equal(second.status()?.caughtAt, undefined, 'two releases may read a row differently: nobody is accused')
})

test('rows that are gone show in the count of the feed', async (t) => {
  const { feed, open } = await world(t, 250)
  const { refreshedAfter, slice, status } = await open()
  feed.publish(rows(249), 'v1')
  await refreshedAfter(0)
  t.equal(slice()?.rows.count, 249)
  t.ok(status()?.caughtAt)
})

test('a token that moves between two polls is a change like any other', async (t) => {
  let asked = 0
  const { feed, open } = await world(t, 3, (handle) => (task, args) => {
    const answer = handle(task, args)
    asked += args.if_wholesale_feed_version === 'v1' ? 1 : 0
    if (asked === 1 && answer?.unchanged) feed.publish([dearer(0), row(1), row(2)], 'v2')
    return answer
  })
  const { refreshedAfter, prices, status, trouble } = await open()
  await refreshedAfter(0)
  t.same(prices(), [9, 2, 2])
  t.equal(status()?.caughtAt, undefined)
  t.same(trouble, [])
})

test('"unchanged" under another token than was sent is no confirmation', async (t) => {
  let told = { pricing_version: 'p1' } as Record<string, unknown>
  const { feed, open } = await world(t, 3, (handle) => (task, args) => {
    const answer = handle(task, args)
    return task === 'get_signals' ? { ...answer, ...told } : answer
  })
  const { refreshedAfter, prices, status, trouble } = await open()
  await refreshedAfter(0)
  feed.publish([dearer(0), row(1), row(2)], 'v1')
  told = { pricing_version: 'p2' } // it compares the feed's version alone, and says "unchanged" with the new one of its prices
  await refreshedAfter(0)
  t.same(prices(), [9, 2, 2])
  t.equal(status()?.caughtAt, undefined, 'it told the change')
  t.same(trouble, [])
  const pages = feed.pages()
  await refreshedAfter(0)
  t.equal(feed.pages(), pages, 'the token that it told is believed')
  told = { pricing_version: 'p2', cache_scope: 'account' }
  await refreshedAfter(0)
  t.same(
    prices(),
    [undefined, undefined, undefined],
    "prices that it now calls an account's are not for everybody",
  )
})

test('an agent that showed nothing while it restarted is looked at as before', async (t) => {
  const { feed, open } = await world(t, 50)
  const { refreshedAfter, prices, status } = await open()
  await refreshedAfter(0)
  feed.publish([], 'v0')
  await refreshedAfter(0)
  t.equal(status()?.problem?.reason, 'shrunken_feed')
  feed.publish(rows(50), 'v1')
  const pages = feed.pages()
  await refreshedAfter(LOOK_MS)
  t.equal(feed.pages(), pages + 1, 'its page is looked at, and nothing is wrong with it')
  feed.publish([dearer(0), ...rows(50).slice(1)], 'v1')
  await refreshedAfter(LOOK_MS)
  t.equal(prices()[0], 9)
  t.ok(status()?.caughtAt)
})

test('pages that differ for reasons of their own cost one full read a day', async (t) => {
  let drift = 0
  const { feed, open } = await world(t, 3, (handle) => (task, args) => {
    const answer = handle(task, args)
    drift += 1
    return answer?.pagination ? { ...answer, pagination: { has_more: false, total_count: drift } } : answer
  })
  const { refreshedAfter, status } = await open()
  await refreshedAfter(0)
  const pages = feed.pages()
  for (let look = 0; look < 5; look++) await refreshedAfter(LOOK_MS)
  t.equal(feed.pages(), pages)
  t.equal(status()?.caughtAt, undefined)
})

test('cursors that are over prove nothing', async (t) => {
  let refuses = false
  const { open } = await world(t, 450, (handle) => (task, args) => {
    const { cursor } = (args.pagination ?? {}) as { cursor?: string }
    if (!refuses || cursor === undefined) return handle(task, args)
    return { status: 'failed', adcp_error: { code: 'INVALID_REQUEST', message: 'cursor expired' } }
  })
  const { refreshedAfter, status, trouble } = await open()
  refuses = true
  for (let look = 0; look < 4; look++) await refreshedAfter(LOOK_MS)
  t.match(status(), { state: 'fresh', listings: 450 })
  t.same(trouble, [])
})

test('cursors and tokens that are too long are neither kept nor sent', async (t) => {
  const spots = createSpotCheck({ now: () => 1, random: () => 0 })
  const slice = { digests: new BigUint64Array(0) } as Slice
  const sent: number[] = []
  const look = (length: number) =>
    spots.finds(slice, async (cursor) => {
      sent.push(cursor?.length ?? 0)
      const pagination = { has_more: true, cursor: 'x'.repeat(length) }
      return { kind: 'answer', rows: NO_ROWS, payload: { signals: [], pagination } }
    })
  await look(4_097)
  t.same(sent, [0])
  await look(4_096)
  t.same(sent, [0, 0, 4_096])

  const isNews = (length: number) =>
    createSpotCheck({ now: () => 1, random: () => 0 }).finds({ ...slice, feedVersion: 'v' }, async () => ({
      kind: 'answer',
      rows: NO_ROWS,
      payload: { signals: [], wholesale_feed_version: 'v'.repeat(length) },
    }))
  t.equal(await isNews(513), false)
  t.equal(await isNews(512), true)
})
