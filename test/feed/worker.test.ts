import { hash } from 'node:crypto'
import { test } from 'tap'
import type { ProviderState } from '../../src/authz/rules/state.js'
import { makeTables } from '../../src/authz/rules/tables.js'
import { resolveHandle } from '../../src/feed/lookup.js'
import { type BuildRequest, createBuilderHost } from '../../src/snapshot/builder-host.js'
import { rowBytes, type Snapshot } from '../../src/snapshot/snapshot.js'
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
  const held = {
    url: 'https://provider.example/.well-known/adagents.json',
    fetchedAt: 0,
    digest: hash('sha256', bytes),
    bytes,
    tables: makeTables(file, bytes),
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

test('a worker builds what providers allow, and routes to the slices that were given', async (t) => {
  const host = createBuilderHost()
  t.teardown(host.close)
  const { snapshot } = await host.build(request())
  t.same(names(snapshot), ['Defined a', 'Defined b'])
  t.equal(snapshot.slices[0]?.slice, north, 'the very slice, not a copy')
  const row = JSON.parse(Buffer.from(rowBytes(snapshot, 0)).toString())
  t.match(resolveHandle(snapshot, row.signal_agent_segment_id), {
    offers: [{ upstream: 'north', segmentId: /^seg_/ }],
  })
})

test('builds follow each other: slices, files, policies and accounts come and go', async (t) => {
  const host = createBuilderHost()
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

test('a build says when time alone will change it, and the build at that time is different', async (t) => {
  const host = createBuilderHost()
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

test('a build that breaks rejects, and the next one starts afresh', async (t) => {
  const host = createBuilderHost()
  t.teardown(host.close)
  await host.build(request())
  const broken = { ...sliceOf('south', [listing('c')]), rows: undefined as never }
  await t.rejects(host.build(request({ slices: [north, broken] })))
  t.same(names((await host.build(request())).snapshot), ['Defined a', 'Defined b'])
})

test('after close, builds reject', async (t) => {
  const host = createBuilderHost()
  const under = t.rejects(host.build(request()))
  await host.close()
  await under
  await t.rejects(host.build(request()), { message: 'the builder is closed' })
})
