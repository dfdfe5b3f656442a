import { hash } from 'node:crypto'
import { test } from 'tap'
import { inspect } from '../../src/authz/provider/inspector.js'
import type { ProviderState } from '../../src/authz/rules/verdict.js'
import { resolveHandle } from '../../src/feed/find-signal.js'
import { type BuildRequest, createBuilderHost } from '../../src/snapshot/builder-host.js'
import { SMALL_FEED_BYTES } from '../../src/snapshot/small-feed.js'
import { rowBytes, type Snapshot } from '../../src/snapshot/snapshot.js'
import { watchThreads } from '../composition/support/threads.js'
import { agentUrl, listing, sliceOf } from './world.js'

const DAY = 86_400_000

/** A provider's file that lets `upstream` sell `ids`. */
function providerState(
  upstream: string,
  ids: string[],
  { until, expiresAt = 7 * DAY }: { until?: string; expiresAt?: number } = {},
): ProviderState {
  const file = {
    signals: ids.map((id) => ({ id, name: `Defined ${id}`, value_type: 'binary' })),
    authorized_agents: [
      {
        url: agentUrl(upstream),
        authorized_for: 'selling signals',
        authorization_type: 'signal_ids',
        signal_ids: ids,
        ...(until ? { effective_until: until } : {}),
      },
    ],
  }
  const bytes = Buffer.from(JSON.stringify(file))
  const read = inspect(bytes)
  if (read.kind !== 'document') throw new Error(`the file is read as ${read.kind}`)
  const held = {
    url: 'https://provider.example/.well-known/adagents.json',
    fetchedAt: 0,
    digest: hash('sha256', bytes),
    bytes,
    tables: read.tables,
  }
  return { domain: 'provider.example', document: held, expiresAt, confirmedAt: 0 }
}

const policy = { policy: 'strict' as const, providers: {} }
const north = sliceOf('north', [listing('a'), listing('b')])
const request = (more: Partial<BuildRequest> = {}): BuildRequest => ({
  slices: [north],
  providers: [providerState('north', ['a', 'b'])],
  policy,
  now: 0,
  ...more,
})
const names = (snapshot: Snapshot) =>
  [...snapshot.shown]
    .map((entry) => JSON.parse(Buffer.from(rowBytes(snapshot, entry)).toString()).name as string)
    .sort()

/** Every build in a thread, or every one of this small feed in place. */
const PLACES = { 'in a thread': 0, 'in place': SMALL_FEED_BYTES }

for (const [place, inPlaceBytes] of Object.entries(PLACES)) {
  test(`a host builds what providers allow, and routes to the slices that were given (${place})`, async (t) => {
    const host = createBuilderHost(inPlaceBytes)
    t.teardown(host.close)
    const { snapshot } = await host.build(request())
    t.same(names(snapshot), ['Defined a', 'Defined b'])
    t.equal(snapshot.slices[0]?.slice, north, 'the very slice, not a copy')
    const row = JSON.parse(Buffer.from(rowBytes(snapshot, 0)).toString())
    t.match(resolveHandle(snapshot, row.signal_agent_segment_id), {
      offers: [{ upstream: 'north', segmentId: /^seg_/ }],
    })
  })

  test(`builds follow each other: slices, files, policies and accounts come and go (${place})`, async (t) => {
    const host = createBuilderHost(inPlaceBytes)
    t.teardown(host.close)
    const first = request()
    const built = async (more: Partial<BuildRequest>) =>
      names((await host.build({ ...first, ...more })).snapshot)
    const south = sliceOf('south', [listing('c')])
    const deal = sliceOf('north', [listing('a')], { scope: 'acc' })
    const all = await Promise.all([
      built({}),
      built({ slices: [north, south] }),
      built({ slices: [deal], account: 'acc' }),
      built({ providers: [providerState('south', ['c'])], slices: [north, south] }),
      built({ providers: [], slices: [north, south], policy: { policy: 'lenient', providers: {} } }),
      built({
        providers: [],
        slices: [north, south],
        policy: { policy: 'lenient', providers: { 'provider.example': { policy: 'strict' } } },
      }),
    ])
    t.same(all, [
      ['Defined a', 'Defined b'],
      ['Defined a', 'Defined b'],
      ['Defined a'],
      ['Defined c'],
      ['Signal a', 'Signal b', 'Signal c'],
      [],
    ])
    await host.forget('acc')
    t.same(await built({}), ['Defined a', 'Defined b'])
  })

  test(`a build says when time alone will change it, and the build at that time is different (${place})`, async (t) => {
    const host = createBuilderHost(inPlaceBytes)
    t.teardown(host.close)
    const until = new Date(DAY).toISOString()
    const timed = request({ providers: [providerState('north', ['a'], { until })] })
    const before = await host.build(timed)
    t.same(names(before.snapshot), ['Defined a'])
    t.ok(before.rebuildAt !== undefined && before.rebuildAt >= DAY && before.rebuildAt <= DAY + 1)
    const after = await host.build({ ...timed, now: DAY + 1 })
    t.same(names(after.snapshot), [])
    const expired = await host.build({ ...request(), now: 7 * DAY })
    t.same(names(expired.snapshot), [])
  })

  test(`a build that breaks rejects, and the next one starts afresh (${place})`, async (t) => {
    const host = createBuilderHost(inPlaceBytes)
    t.teardown(host.close)
    await host.build(request())
    const broken = { ...sliceOf('south', [listing('c')]), rows: undefined as never }
    await t.rejects(host.build(request({ slices: [north, broken] })))
    t.same(names((await host.build(request())).snapshot), ['Defined a', 'Defined b'])
  })

  test(`after close, builds reject (${place})`, async (t) => {
    const host = createBuilderHost(inPlaceBytes)
    const under = t.rejects(host.build(request()))
    await host.close()
    await under
    await t.rejects(host.build(request()), { message: 'the builder is closed' })
  })
}

test('a feed that grows is merged in place, then in a thread, and every build is the same as one from nothing', async (t) => {
  const threads = watchThreads()
  const host = createBuilderHost(4_096)
  t.teardown(host.close)
  const small = await host.build(request())
  t.equal(threads.started('build-worker'), 0, 'a small feed has no thread')
  const many = sliceOf(
    'south',
    Array.from({ length: 40 }, (_, at) => listing(`c${at}`)),
  )
  const south = providerState(
    'south',
    [...Array(40).keys()].map((at) => `c${at}`),
  )
  const large = request({ slices: [north, many], providers: [south] })
  const grown = await host.build(large)
  t.equal(threads.started('build-worker'), 1)
  const again = await host.build(request())
  t.equal(threads.started('build-worker'), 1, 'the thread stays')
  t.equal(again.snapshot.id, small.snapshot.id)
  const fresh = createBuilderHost()
  t.teardown(fresh.close)
  t.equal(grown.snapshot.id, (await fresh.build(large)).snapshot.id)
  t.equal(names(grown.snapshot).length, 40)
})

test('one long row is enough for a thread', async (t) => {
  const threads = watchThreads()
  const host = createBuilderHost()
  t.teardown(host.close)
  const long = { ...listing('a'), description: 'word '.repeat(4_000) }
  const { snapshot } = await host.build(request({ slices: [sliceOf('north', [long])] }))
  t.equal(threads.started('build-worker'), 1)
  t.equal(names(snapshot).length, 1)
})

test('layers count together: many accounts of a small feed are merged in a thread', async (t) => {
  const threads = watchThreads()
  const host = createBuilderHost(2_048)
  t.teardown(host.close)
  for (let account = 0; account < 10; account += 1) {
    await host.build(request({ slices: [sliceOf('north', [listing('a')])], account: `acc${account}` }))
  }
  t.equal(threads.started('build-worker'), 1)
  t.same(names((await host.build(request())).snapshot), ['Defined a', 'Defined b'])
})
