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

type Test = { teardown(task: () => unknown): void }

/** A world with one upstream whose rows a test changes. */
function movableWorlds(clock: Clock) {
  const listeners: (() => void)[] = []
  let count = 1
  let revision = 1
  let movedAt: number | undefined
  const current = (): World => {
    movedAt = undefined
    const rows = Array.from({ length: count }, (_, at) => listing(`s${at}`))
    const layer = { slices: [sliceOf('north', rows)], gaps: [] }
    return {
      revision,
      open: layer,
      accounts: new Map(),
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

function opened(t: Test, isBroken: (build: number) => boolean, clock: Clock = systemClock) {
  const { worlds, rows } = movableWorlds(clock)
  const builder = createBuilderHost()
  const feed = emptyFeed()
  let builds = 0
  let failures = 0
  const publisher = createPublisher({
    ...{ worlds, feed, clock, random: () => 0, log: pino({ level: 'silent' }) },
    rows: { loaded: async () => {}, areFound: async () => true },
    builder: {
      ...builder,
      async build(request) {
        builds += 1
        const built = await builder.build(request)
        if (isBroken(builds)) throw new Error('a bug met in some data')
        return built
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
  return { publisher, feed, worlds, rows, failures: () => failures }
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
  const { publisher, feed, worlds, rows, failures } = opened(t, (build) => build === 2, time.clock)
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
