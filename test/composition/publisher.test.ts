import { setImmediate as nextTurn } from 'node:timers/promises'
import { pino } from 'pino'
import { test } from 'tap'
import { createPublisher } from '../../src/composition/publishing.js'
import type { World, Worlds } from '../../src/composition/world.js'

import { type Clock, systemClock } from '../../src/net/clock.js'
import { createBuilderHost } from '../../src/snapshot/builder-host.js'
import { emptyFeed } from '../feed/feed-of.js'
import { listing, sliceOf } from '../feed/world.js'
import { createManualClock } from '../support/upstream-clock.js'
import { until } from '../support/upstream-world.js'

type Test = { teardown(task: () => unknown): void; equal(found: unknown, wanted: unknown): boolean }

/** A world with one upstream, which has one row more each time it moves. */
function movableWorlds(clock: Clock, rowsAtFirst: number, accounts: World['accounts']) {
  const listeners: (() => void)[] = []
  let count = rowsAtFirst
  let revision = 1
  let movedAt: number | undefined
  const current = (): World => {
    movedAt = undefined
    const rows = Array.from({ length: count }, (_, at) => listing(`s${at}`))
    const layer = { slices: [sliceOf('north', rows)], gaps: [] }
    return {
      revision,
      open: layer,
      accounts,
      isCurrent: () => true,
      providers: [],
      policy: { policy: 'observe', providers: {} },
      now: clock.now(),
    }
  }
  const moved = () => {
    count += 1
    revision += 1
    movedAt ??= clock.now()
    for (const listener of listeners) listener()
  }
  const onMove = (listener: () => void) => void listeners.push(listener)
  const worlds: Worlds = { moved, revision: () => revision, movedAt: () => movedAt, current, onMove }
  return { worlds, rows: () => count }
}

type Given = {
  clock?: Clock
  rowsAtFirst?: number
  accounts?: World['accounts']
  isComing?(): boolean
  /** When time changes a verdict next. */
  dueAfter?(now: number): number
}

function opened(t: Test, isBroken: (build: number) => boolean, given: Given = {}) {
  const { clock = systemClock, rowsAtFirst = 1, accounts = new Map(), isComing = () => false } = given
  const { worlds, rows } = movableWorlds(clock, rowsAtFirst, accounts)
  const builder = createBuilderHost()
  const feed = emptyFeed()
  let builds = 0
  const builtFor: number[] = [] // the moments
  let failures = 0
  const publisher = createPublisher({
    ...{ worlds, feed, clock, random: () => 0, log: pino({ level: 'silent' }) },
    isComing,
    rows: { loaded: async () => {}, areFound: async () => true },
    builder: {
      ...builder,
      async build(request) {
        builds += 1
        const built = await builder.build(request)
        if (isBroken(builds)) throw new Error('a bug met in some data')
        builtFor.push(request.now)
        return given.dueAfter ? { ...built, rebuildAt: given.dueAfter(request.now) } : built
      },
    },
    onPublished: () => {},
    onFailure: () => {
      failures += 1
    },
  })
  t.teardown(async () => {
    await publisher.close()
    await builder.close()
  })
  return { publisher, feed, worlds, rows, builtFor, builds: () => builds, failures: () => failures }
}

const shown = (feed: ReturnType<typeof opened>['feed']) => feed.current()?.count

test('whatever changes during a build is in a generation soon after, however often it does', async (t) => {
  const { publisher, feed, worlds, rows } = opened(t, () => false)
  const first = publisher.open()
  for (let n = 0; n < 20; n += 1) {
    worlds.moved()
    await new Promise((resolve) => setTimeout(resolve, n % 4))
  }
  await first
  await until('everything', () => shown(feed) === rows())
  t.match(publisher.revisions(), { built: worlds.revision(), wanted: worlds.revision(), behindMs: 0 })
})

test('a build that fails is tried again by itself, and how far the feed is behind shows meanwhile', async (t) => {
  const time = createManualClock()
  const { publisher, feed, worlds, rows, failures } = opened(t, (build) => build === 2, { clock: time.clock })
  await publisher.open()
  worlds.moved()
  await until('the failure', () => failures() === 1)
  time.advance(200)
  const { built, wanted, behindMs } = publisher.revisions()
  t.ok(built < wanted)
  t.equal(behindMs, 200)
  time.advance(1_000)
  await until('the second attempt', () => shown(feed) === rows())
  t.equal(publisher.revisions().behindMs, 0)
})

test('what was published last no longer counts as all that is known once something changes, also after the end', async (t) => {
  const { publisher, feed, worlds } = opened(t, () => false)
  await publisher.open()
  await publisher.close()
  t.equal(publisher.served()?.snapshot, feed.current())
  worlds.moved()
  t.equal(publisher.served(), undefined)
})

test('what time alone changes is built at its moment, and then five seconds apart, whatever is built in between', async (t) => {
  const time = createManualClock()
  const begun = time.clock.now()
  const dueAfter = (now: number) => Math.max(begun + 1_010, (Math.floor(now / 25) + 1) * 25)
  const { publisher, worlds, builtFor } = opened(t, () => false, { clock: time.clock, dueAfter })
  await publisher.open()
  const isCurrent = () => publisher.revisions().built === worlds.revision()
  for (let passed = 0; passed < 18_000; passed += 100) {
    time.advance(100)
    if (passed === 7_900) worlds.moved()
    await until('a generation', isCurrent)
  }
  t.same(
    builtFor.map((at) => at - begun),
    [0, 1_010, 6_010, 8_000, 11_010, 16_010],
  )
})

/** One whose first feed shows nothing (to open it moves the world once), under a clock that `pass` moves. */
async function emptyAtFirst(t: Test, isComing: () => boolean, accounts: World['accounts'] = new Map()) {
  const time = createManualClock()
  let setBackMs = 0
  const clock = { ...time.clock, now: () => time.clock.now() - setBackMs }
  const given = opened(t, () => false, { clock, rowsAtFirst: -1, accounts, isComing })
  await given.publisher.open()
  t.equal(shown(given.feed), 0)
  async function pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 100) {
      time.advance(100)
      await nextTurn()
    }
  }
  const setBack = (ms: number) => {
    setBackMs = ms
  }
  return { ...given, pass, setBack }
}

test('as long as nothing is shown and more is to come, a build waits until nothing has come for two seconds', async (t) => {
  const { feed, worlds, builds, pass } = await emptyAtFirst(t, () => true)
  for (let news = 0; news < 5; news += 1) {
    worlds.moved()
    await pass(1_900)
  }
  t.equal(builds(), 1)
  await pass(200)
  await until('all that has come', () => shown(feed) === 5)
  t.equal(builds(), 2)
  worlds.moved()
  await until('what came while signals were shown', () => shown(feed) === 6)
})

test('it waits no longer than fifteen seconds, however much comes', async (t) => {
  const { feed, worlds, builds, pass } = await emptyAtFirst(t, () => true)
  for (let news = 0; news < 14; news += 1) {
    worlds.moved()
    await pass(1_000)
  }
  t.equal(builds(), 1)
  worlds.moved()
  await pass(1_100)
  await until('what has come', () => shown(feed) === 15)
})

test('where nothing more is to come, a feed that shows nothing waits for nothing', async (t) => {
  let isComing = true
  const { feed, worlds, pass } = await emptyAtFirst(t, () => isComing)
  worlds.moved()
  await pass(500)
  t.equal(shown(feed), 0)
  isComing = false
  await pass(100)
  await until('the row', () => shown(feed) === 1)
})

test('a publisher that waits for more ends at once', async (t) => {
  const { publisher, worlds, builds } = await emptyAtFirst(t, () => true)
  worlds.moved()
  await publisher.close()
  t.equal(builds(), 1)
})

test('a clock that is set back holds up nothing', async (t) => {
  const { feed, worlds, pass, setBack } = await emptyAtFirst(t, () => true)
  worlds.moved()
  setBack(60_000)
  await pass(100)
  await until('the row', () => shown(feed) === 1)
})

test('who shows signals to one account only holds up nothing', async (t) => {
  const own = { slices: [sliceOf('north', [listing('own')])], gaps: [], hasOwn: true }
  const { feed, worlds } = await emptyAtFirst(t, () => true, new Map([['acme', own]]))
  worlds.moved()
  await until('the row', () => shown(feed) === 1)
})
