import { test } from 'tap'
import { createEventIds } from '../../src/events/changes.js'
import { createStandings, type Eyes } from '../../src/events/standings.js'
import { emptyFeed, publish } from '../feed/feed-of.js'
import { listing, sliceOf } from '../feed/world.js'
import { createManualClock } from '../support/upstream-clock.js'
import { eyes, publishNumbers } from './support/numbered-feed.js'

const MINUTE = 60_000

/** Readers who see the feed apart from each other, as their keys differ. */
const eyesOf = (reader: number): Eyes => ({
  open: { caller: 'buyer', visibility: 'full', grants: [{ type: 'platform', platform: `dsp-${reader}` }] },
  account: 'acc',
})

test('however many wait for however long, few snapshots are kept, and then only the one that is read', async (t) => {
  const manual = createManualClock()
  const feed = emptyFeed()
  const { current, since, snapshots } = createStandings({ feed, clock: manual.clock })
  for (let moment = 1; moment <= 20; moment += 1) {
    publish(feed, [
      sliceOf(
        'north',
        Array.from({ length: moment }, (_, at) => listing(`s${at}`)),
      ),
    ])
    t.ok(await current(eyesOf(moment)), 'each asks once, and waits from then on')
    await current(eyesOf(0))
    manual.advance(1_000)
  }
  t.ok(snapshots() <= 4, `${snapshots()} snapshots`)
  manual.advance(10 * MINUTE)
  t.equal(snapshots(), 1)
  const told = await current(eyesOf(0))
  publish(feed, [sliceOf('north', [listing('s0')])])
  manual.advance(60 * MINUTE)
  const next = told && (await since(told, eyesOf(0)))
  t.match(next?.events, [{ type: 'wholesale_feed.bulk_change' }])
  t.ok(told && next && told.public.feed !== next.versions.public.feed)
})

test('rows that are too much together are told as one event', async (t) => {
  const feed = emptyFeed()
  const { current, since } = createStandings({ feed, clock: createManualClock().clock })
  const long = (count: number, text: string) => [
    sliceOf(
      'north',
      Array.from({ length: count }, (_, at) =>
        listing(`s${at}`, { description: `${text} ${at}`.repeat(10_000) }),
      ),
    ),
  ]
  for (const [count, type] of [
    [4, 'signal.updated'],
    [9, 'wholesale_feed.bulk_change'],
  ] as const) {
    publish(feed, long(count, 'one way or the other'))
    const told = await current(eyesOf(0))
    publish(feed, long(count, 'quite another way'))
    const next = told && (await since(told, eyesOf(0)))
    t.equal(next?.events[0]?.type, type)
  }
})

test('a change that comes again is told by new events, above all before them', async (t) => {
  const manual = createManualClock()
  const { feed, publish: publishThese } = publishNumbers()
  const { current, since } = createStandings({ feed, clock: manual.clock })
  publishThese([1])
  let versions = await current(eyes)
  const ids: string[] = []
  for (const numbers of [[1, 2, 3], [1], [1, 2, 3], [1]]) {
    manual.advance(1_000)
    publishThese(numbers)
    const [next, others] = await Promise.all([0, 1].map(() => versions && since(versions, eyes)))
    t.same(others?.events, next?.events, 'one change is one event for all who see it')
    ids.push(...(next?.events ?? []).map(({ id }) => id))
    versions = next?.versions
  }
  t.equal(ids.length, 8)
  t.same(ids, [...new Set(ids)].sort(), 'receivers put events in order by their ids')
})

test('events that others were told before are not told below those that a subscriber was told since', async (t) => {
  const manual = createManualClock()
  const feed = emptyFeed()
  const { current, since } = createStandings({ feed, clock: manual.clock })
  const rows = (...numbers: number[]) => [
    sliceOf(
      'north',
      numbers.map((number) => listing(`s${number}`)),
    ),
  ]
  const { open } = eyes
  const both: Eyes = { open, own: { ...open, account: 'layer' }, account: 'acc' }
  publish(feed, rows(1))
  publish(feed, rows(1, 8), { account: 'layer' })
  const early = await current(both)
  publish(feed, rows(1, 2))
  publish(feed, rows(1, 8), { account: 'layer' })
  const late = await current(both)
  publish(feed, rows(1, 8, 9), { account: 'layer' })
  if (!early || !late) throw new Error('the feed stands')
  manual.advance(1_000)
  t.match((await since(late, both))?.events, { length: 1 }, 'one was told of the public layer before')
  manual.advance(1_000)
  const ids = (await since(early, both))?.events.map(({ id }) => id)
  t.equal(ids?.length, 2, 'another is told of both')
  t.same(ids, ids && [...ids].sort())
})

test('an id that another process gave is followed, whoever was told of the change before', async (t) => {
  const manual = createManualClock()
  const { feed, publish: publishThese } = publishNumbers()
  const ahead = createEventIds(() => manual.clock.now() + 30_000)
  const { current, since } = createStandings({ feed, clock: manual.clock })
  publishThese([1])
  const before = await current(eyes)
  if (!before) throw new Error('the feed stands')
  publishThese([1, 2])
  const lastId = ahead.next()
  const toldFirst = await since(before, eyes)
  manual.advance(60_000)
  await since(before, eyes, true) // ids of this process are above it by now
  const next = await Promise.all([0, 1].map(() => since(before, eyes, false, lastId)))
  for (const one of next) t.ok((one?.events[0]?.id ?? '') > lastId)
  t.same(next[0]?.events, next[1]?.events)
  t.not(next[0]?.events[0]?.id, toldFirst?.events[0]?.id)
  t.same((await since(before, eyes))?.events, next[0]?.events, 'and shared by all from then on')
})

test('what some processes do not show yet is not told, and no more is what they do not show any more', async (t) => {
  const feed = emptyFeed()
  let isEverywhere = true
  const { current, since } = createStandings({
    ...{ feed, clock: createManualClock().clock },
    isEverywhere: () => isEverywhere,
  })
  publish(feed, [sliceOf('north', [listing('a')])])
  const told = await current(eyesOf(0))
  isEverywhere = false
  publish(feed, [sliceOf('north', [listing('a'), listing('b')])])
  t.equal(await current(eyesOf(0)), undefined)
  t.equal(told && (await since(told, eyesOf(0))), undefined)
  isEverywhere = true
  t.match(told && (await since(told, eyesOf(0))), { events: [{ type: 'signal.created' }] })
})
