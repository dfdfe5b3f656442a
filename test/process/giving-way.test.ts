/** Threads that work for the next feed leave the cores to the one that serves (docs/decisions.md#who-builds-gives-way). */
import { readdirSync, readFileSync } from 'node:fs'
import { getPriority } from 'node:os'
import { test } from 'tap'
import { createSearchHost } from '../../src/search/search-host.js'
import { compileSynonyms } from '../../src/search/synonyms.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { type BuildRequest, createBuilderHost } from '../../src/snapshot/builder-host.js'
import { judgeThat, listing, sliceOf } from '../feed/world.js'

const STAT_NICE = 16 // members of /proc/PID/task/TID/stat behind the name, which may hold spaces
const WORDS = { filler: '', qualifiers: '', same: [], kinds: {}, places: {}, destinations: {} }

/** How much nicer than the thread that serves threads of this process are: one number for each that is. */
function nicer(): number[] {
  const own = getPriority()
  return readdirSync('/proc/self/task')
    .map((thread) => readFileSync(`/proc/self/task/${thread}/stat`, 'utf8'))
    .map((stat) => Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[STAT_NICE]) - own)
    .filter((more) => more !== 0)
}

const request = (...upstreams: string[]): BuildRequest => ({
  slices: upstreams.map((upstream) => sliceOf(upstream, [listing('a'), listing('b')])),
  ...{ providers: [], policy: { policy: 'lenient', providers: {} }, now: 0 },
})
const snapshotOf = (...upstreams: string[]) =>
  buildSnapshot({ slices: request(...upstreams).slices, judge: judgeThat() })

/** Linux alone has a priority for each thread. */
const options = { skip: process.platform !== 'linux' && 'threads have no priority of their own here' }

test('a thread that builds gives way from the second feed on, once', options, async (t) => {
  const host = createBuilderHost(0)
  t.teardown(host.close)
  await host.build(request())
  await host.build(request('north'))
  t.same(nicer(), [], 'no signal was served before')
  await host.build(request('west'))
  t.same(nicer(), [10])
  await host.build(request('north'))
  t.same(nicer(), [10])
})

test(
  'of two threads that build the first feed neither gives way; the one that stays does later',
  options,
  async (t) => {
    const host = createBuilderHost(0, 0)
    t.teardown(host.close)
    await host.build(request('north'))
    t.same(nicer(), [])
    await host.build(request('west'))
    t.same(nicer(), [10])
  },
)

test('after a restart, the first build gives way to what is served again', options, async (t) => {
  const host = createBuilderHost(0)
  t.teardown(host.close)
  host.restore(snapshotOf('north'))
  await host.build(request('north'))
  t.same(nicer(), [10])
})

test('what is built on the thread that serves takes no priority from it', options, async (t) => {
  const own = getPriority()
  const host = createBuilderHost()
  t.teardown(host.close)
  await host.build(request('north'))
  await host.build(request('west'))
  t.equal(getPriority(), own)
})

test('a thread that indexes gives way once there is an index', options, async (t) => {
  const search = createSearchHost(compileSynonyms(WORDS), 0)
  t.teardown(search.close)
  await search.publish(snapshotOf())
  await search.publish(snapshotOf('north'))
  t.same(nicer(), [], 'questions waited for the first signals')
  await search.publish(snapshotOf('west'))
  t.same(nicer(), [10])
})
