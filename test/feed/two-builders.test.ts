/**
 * A large first feed is built by two threads, half of the keys each. Nobody can tell it from what one builder makes, and
 * whatever happens to the second thread, the feed comes.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { test } from 'tap'
import { buildSnapshot, joinedHalves } from '../../src/snapshot/builder.js'
import { type BuildRequest, createBuilderHost } from '../../src/snapshot/builder-host.js'
import { createRowKeys, putRowKeys } from '../../src/snapshot/slice-index.js'
import type { Snapshot } from '../../src/snapshot/snapshot.js'
import { watchThreads } from '../composition/support/threads.js'
import { proven } from '../support/proven.js'
import { anyWorld, type World } from './arbitrary.js'
import { everything } from './everything.js'
import { judgeThat, listing, sliceOf } from './world.js'

const rows = (count: number) => Array.from({ length: count }, (_, at) => listing(`s${at}`))
const request = (more: Partial<BuildRequest> = {}): BuildRequest => ({
  slices: [sliceOf('north', rows(40)), sliceOf('south', rows(20))],
  providers: [],
  policy: { policy: 'lenient', providers: {} },
  now: 0,
  ...more,
})

const HALVES = [0, 1] as const

function inHalves({ slices, judge }: World): Snapshot {
  const rowKeys = new Map(slices.map((slice) => [slice, createRowKeys(slice)]))
  for (const [slice, keys] of rowKeys) for (const half of HALVES) putRowKeys(slice, keys, half)
  const [first, second] = HALVES.map((half) => buildSnapshot({ slices, judge, only: { half, rowKeys } }))
  return joinedHalves(first as Snapshot, second as Snapshot)
}

/** What `everything` leaves open, but for where rows lie. */
function numbering({ facts, deployments, offers, stamps, slices, count }: Snapshot) {
  const keys = slices.map(({ slice, keys }) => [slice.upstream, keys])
  return { facts, deployments, offers, stamps: [...stamps], keys, count }
}

function assertSame(one: Snapshot, other: Snapshot): void {
  assert.equal(everything(one), everything(other))
  assert.deepEqual(numbering(one), numbering(other))
}

/** Of one signal each: one half is empty, of some the first, of others the second. */
const SMALLEST = ['s1', 's2', 's3', 's4', 's5', 's6'].map(
  (id): World => ({ slices: [sliceOf('alpha', [listing(id)])], judge: judgeThat() }),
)

function assertJoins(world: World, next: World): void {
  const joined = inHalves(world)
  assertSame(joined, buildSnapshot(world))
  const after = buildSnapshot({ ...next, previous: joined })
  assert.equal(everything(after), everything(buildSnapshot(next)))
}

test('the halves of a snapshot, joined, are the snapshot: its id, its rows, its words and their numbers', (t) => {
  for (const world of SMALLEST) assertJoins(world, world)
  proven(t, 8, fc.property(anyWorld, anyWorld, assertJoins))
  t.end()
})

test('words of the second half are numbered behind those of the first', (t) => {
  const of = (upstream: string, shift: number) =>
    sliceOf(
      upstream,
      Array.from({ length: 60 }, (_, at) =>
        listing(`s${at + shift}`, { countries: [at % 7 ? 'DE' : 'FR'] }, `d${at % 11}.example`),
      ),
    )
  const world = { slices: [of('north', 0), of('south', 30)], judge: judgeThat() }
  const joined = inHalves(world)
  assertSame(joined, buildSnapshot(world))
  t.equal(joined.facts.domains.length, 12)
  t.equal(joined.rows.chunks.length, 2)
  t.end()
})

const threads = watchThreads()

/** One builder's. */
async function builtAlone(more: Partial<BuildRequest> = {}) {
  const host = createBuilderHost(0)
  const { snapshot } = await host.build(request(more))
  await host.close()
  return snapshot
}

const ALONE = await builtAlone()

/** A host for which every first feed is large, and which of the threads are its own. */
function opened(t: { teardown(task: () => unknown): void }) {
  const before = threads.started('build-worker')
  const host = createBuilderHost(0, 0)
  t.teardown(host.close)
  return { host, before, started: () => threads.started('build-worker') - before }
}

const running = () => threads.running('build-worker')

test('two threads build the first feed, and one all later ones', async (t) => {
  const slices = [sliceOf('north', rows(30)), sliceOf('west', rows(60))]
  const next = await builtAlone({ slices })
  const { host, started } = opened(t)
  assertSame((await host.build(request())).snapshot, ALONE)
  t.equal(started(), 2)
  t.equal(running(), 1, 'the second has ended')
  t.equal((await host.build(request({ slices }))).snapshot.id, next.id)
  const ofAccount = await host.build(request({ slices: [sliceOf('north', rows(2))], account: 'acc' }))
  t.equal(ofAccount.snapshot.shown.length, 2)
  t.equal(started(), 2)
})

const STRICT = { policy: { policy: 'strict', providers: {} } } as const

test('two threads build the first feed that shows a signal, whatever was built before it', async (t) => {
  const { host, started } = opened(t)
  const empty = await host.build(request({ slices: [] }))
  t.equal(empty.snapshot.shown.length, 0)
  t.equal(started(), 1)
  assertSame((await host.build(request())).snapshot, ALONE)
  t.equal(started(), 3)
  t.equal(running(), 1)
  t.equal((await host.build(request({ slices: [] }))).snapshot.shown.length, 0)
  t.equal((await host.build(request())).snapshot.id, ALONE.id)
  t.equal(started(), 3, 'what was served once stays with the thread that built it')
})

test('rows that nobody may see are taken up once, by two threads', async (t) => {
  const { slices } = request()
  const { host, started } = opened(t)
  for (let build = 0; build < 3; build += 1) {
    t.equal((await host.build(request({ ...STRICT, slices }))).snapshot.shown.length, 0)
  }
  const few = [...slices, sliceOf('west', rows(10))]
  const ofAccount = await host.build(request({ ...STRICT, slices: few, account: 'acc' }))
  t.equal(ofAccount.snapshot.shown.length, 0)
  t.equal((await host.build(request({ ...STRICT, slices: few }))).snapshot.shown.length, 0)
  t.equal(started(), 2)
  t.equal(running(), 1)
  t.equal((await host.build(request({ slices }))).snapshot.id, ALONE.id)
  t.equal(started(), 2)
})

test('two threads build after a restart that showed nothing', async (t) => {
  const { host, started } = opened(t)
  const { snapshot } = await host.build(request({ slices: [] }))
  host.restore(snapshot)
  assertSame((await host.build(request())).snapshot, ALONE)
  t.equal(started(), 3)
})

test('one thread builds where something is served: after a restart, or when the builder died', async (t) => {
  const { host, started } = opened(t)
  host.restore(ALONE)
  t.equal((await host.build(request())).snapshot.shown.length, 40)
  t.equal(started(), 1)
  await threads.end('build-worker')
  t.equal((await host.build(request())).snapshot.shown.length, 40)
  t.equal(started(), 2)
})

test('a feed of few bytes has one builder', async (t) => {
  const before = threads.started('build-worker')
  await builtAlone()
  t.equal(threads.started('build-worker'), before + 1)
})

test('when the second thread dies, the first builds alone', async (t) => {
  const { host, before, started } = opened(t)
  const sent = threads.holdNext('build-worker', 1)
  const building = host.build(request())
  await sent
  await threads.end('build-worker', before + 1)
  assertSame((await building).snapshot, ALONE)
  t.equal(started(), 2)
})

test('when no thread is left for the second, the first builds alone', async (t) => {
  const { host, before, started } = opened(t)
  t.teardown(() => threads.allow('build-worker', Number.POSITIVE_INFINITY))
  threads.allow('build-worker', before + 1)
  assertSame((await host.build(request())).snapshot, ALONE)
  t.equal(started(), 1)
})

for (const [when, answers] of [
  ['at once', 1],
  ['before the halves are joined', 2],
] as const) {
  test(`when both threads die (${when}) the build fails, and two build the next`, async (t) => {
    const { host, started } = opened(t)
    const sent = threads.holdNext('build-worker', answers)
    const failed = t.rejects(host.build(request()), { message: /the build worker ended/ })
    await sent
    await threads.end('build-worker')
    await failed
    t.equal((await host.build(request())).snapshot.shown.length, 40)
    t.equal(started(), 4)
    t.equal(running(), 1)
  })
}

test('a build that breaks rejects as that of one builder does', async (t) => {
  const { host, started } = opened(t)
  const north = sliceOf('north', rows(3))
  const broken = { ...north, rows: { ...north.rows, start: undefined as never } }
  await t.rejects(host.build(request({ slices: [broken] })), { name: 'TypeError' })
  t.equal(running(), 0)
  t.equal((await host.build(request())).snapshot.shown.length, 40)
  t.equal(started(), 4)
})

test('after close no thread is left', async (t) => {
  const { host, started } = opened(t)
  const sent = threads.holdNext('build-worker', 1)
  const failed = t.rejects(host.build(request()))
  await sent
  await host.close()
  await failed
  t.equal(started(), 2)
  t.equal(running(), 0)
})
