import { randomUUID } from 'node:crypto'
import { readFile, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { createSavedFeed, type Served } from '../../src/composition/saved-snapshots.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { areWhole, createPassingBlobs } from '../../src/upstreams/rows/storage.js'
import { judgeThat, listing, sliceOf } from '../feed/world.js'
import { createManualClock } from '../support/upstream-clock.js'
import { lacks, startScripted, total, until } from './support/scripted.js'
import { type Agent, ownRow, providerRow } from './support/scripted-agents.js'

const rowsOf = ({ url }: Agent, own: number) => [
  ...Array.from({ length: own }, (_, at) => ownRow(url, at, 2)),
  ...Array.from({ length: 13 }, (_, at) => providerRow('alpha.example', at, 2)),
]

/** A world that was stopped, and whose next start waits for a provider: its record is gone, and its server hangs. */
async function stopped(t: Test) {
  const world = await startScripted(t, { agents: 2 })
  const [agent, other] = world.agents as [Agent, Agent]
  agent.offer(rowsOf(agent, 12))
  const settings = { statics: [{ id: 'one', agent }] }
  await world.start(settings)
  const before = await until(world.page, (answer) => total(answer) === 25 && lacks(answer) === '')
  const narrow = await world.page({ countries: ['US'], pagination: { max_results: 5 } })
  await world.stop()
  world.providers.behave('alpha.example', 'hangs')
  await unlink(join(world.folder, 'blobs', 'provider%2Falpha.example.blob'))
  return {
    ...{ world, agent, other, before, narrow, settings },
    others: { statics: [...settings.statics, { id: 'two', agent: other }] },
  }
}

test('a restart serves what was served last, and reads meanwhile what that was merged from', async (t) => {
  const { world, before, settings } = await stopped(t)
  await world.start(settings, false)
  const early = await world.page()
  t.same(early.signals, before.signals)
  t.equal(early.wholesale_feed_version, before.wholesale_feed_version)
  t.equal(lacks(early), '')
  t.match(await world.ready(), { status: 'ready', revision: { built: 0 } })
  const version = { if_wholesale_feed_version: early.wholesale_feed_version }
  t.match(await world.page(version), { unchanged: true })

  let answers = 0
  const [signal_ref] = (early.signals ?? []).map((row) => row.signal_ref)
  const later = [
    world.call('get_signals', { signal_refs: [signal_ref] }),
    world.page({ countries: ['US'] }),
    world.page({ destinations: [{ type: 'platform', platform: 'the-trade-desk' }] }),
    world.call('activate_signal', {
      signal_agent_segment_id: String(early.signals?.[0]?.signal_agent_segment_id),
      destinations: [{ type: 'platform', platform: 'the-trade-desk' }],
      idempotency_key: randomUUID(),
    }),
  ].map((asked) => asked.finally(() => (answers += 1)))
  for (let page = 0; page < 3; page += 1) t.equal(total(await world.page()), 25)
  t.equal(answers, 0, 'what needs listings waits for them')

  world.providers.behave('alpha.example', 'serves')
  const [found] = await Promise.all(later)
  t.same(
    found?.signals?.map((row) => row.signal_ref),
    [signal_ref],
  )
  t.equal(total(await until(world.page, (answer) => total(answer) === 25)), 25)
})

test('a question that the world does not come in time for is refused, and pages are answered on', async (t) => {
  const { world, before, settings } = await stopped(t)
  await world.start({ ...settings, restMs: 50 }, false)
  const refused = { adcp_error: { code: 'SERVICE_UNAVAILABLE', retry_after: 1 } }
  const lookup = () => world.call('get_signals', { signal_refs: [before.signals?.[0]?.signal_ref] })
  t.match(await lookup(), refused)
  t.match(await world.call('get_signals', { signal_spec: 'somebody' }), refused)
  t.match(await world.page({ countries: ['US'] }), refused)
  t.equal(total(await world.page()), 25)
  world.providers.behave('alpha.example', 'serves')
  t.equal((await until(lookup, (answer) => answer.adcp_error === undefined)).signals?.length, 1)
})

test('who waits for the world when the process ends is answered', async (t) => {
  const { world, settings } = await stopped(t)
  await world.start(settings, false)
  const url = `${world.federation().url}/metrics`
  const asked = world.page({ countries: ['US'] })
  const pending = async () => /tributary_pending_calls (\d+)/.exec(await (await fetch(url)).text())?.[1]
  await until(pending, (count) => Number(count) > 0)
  await world.stop()
  t.match(await asked, { adcp_error: { code: 'SERVICE_UNAVAILABLE' } })
})

test('a walk that needs listings begins again rather than go on in what came without them', async (t) => {
  const { world, agent, narrow, settings } = await stopped(t)
  agent.offer(rowsOf(agent, 20))
  await world.start(settings, false)
  const plain = await world.page({ pagination: { max_results: 5 } })
  await until(
    async () => world.federation().statuses()[0]?.listings,
    (listings) => listings === 33,
  )
  world.providers.behave('alpha.example', 'serves')
  await until(world.page, (answer) => total(answer) === 33)
  const goesOn = (cursor = '') => ({ pagination: { max_results: 100, cursor } })
  t.equal(total(await world.page(goesOn(plain.pagination?.cursor))), 25, 'a plain one goes on')
  t.equal(total(await world.page({ countries: ['US'], ...goesOn(narrow.pagination?.cursor) })), 33)
})

test('a restart under another configuration serves nothing before it has read all', async (t) => {
  const { world, others } = await stopped(t)
  await world.start(others, false)
  t.match(await world.page(), { adcp_error: { code: 'SERVICE_UNAVAILABLE' } })
  t.match(await world.ready(), { status: 'starting' })
  world.providers.behave('alpha.example', 'serves')
  await until(world.page, (answer) => total(answer) === 25)
})

test('what another configuration has made is not shown once the configuration changes', async (t) => {
  const { world, other, settings } = await stopped(t)
  other.offer(rowsOf(other, 1))
  await world.start(settings, false)
  t.equal(total(await world.page()), 25)
  world.apply({ statics: [{ id: 'two', agent: other }] })
  t.match(await world.page(), { adcp_error: { code: 'SERVICE_UNAVAILABLE' } })
  t.match(await world.ready(), { status: 'starting' })
  world.providers.behave('alpha.example', 'serves')
  await until(world.page, (answer) => total(answer) === 14)
})

test('a configuration that comes before the first feed is waited for, as if the start had begun with it', async (t) => {
  const { world, other, settings } = await stopped(t)
  other.offer(rowsOf(other, 1))
  other.behave('hangs')
  await world.start(settings, false)
  world.apply({ statics: [{ id: 'two', agent: other }] })
  await until(
    async () => other.calls(),
    (calls) => calls > 0,
  )
  const isReady = world.federation().ready.then(() => true)
  world.providers.behave('alpha.example', 'serves') // for the rows of an agent that is read no more
  t.not(await Promise.race([isReady, delay(300)]), true)
  t.match(await world.page(), { adcp_error: { code: 'SERVICE_UNAVAILABLE' } })
  t.match(await world.ready(), { status: 'starting' })
  other.behave('answers')
  await isReady
  t.equal(total(await world.page()), 14, 'the first feed is whole')
})

test('a change of the configuration disturbs nobody who is in what was replaced', async (t) => {
  const { world, agent, settings, others } = await stopped(t)
  agent.offer(rowsOf(agent, 20))
  await world.start(settings, false)
  const { pagination } = await world.page({ pagination: { max_results: 5 } })
  await until(
    async () => world.federation().statuses()[0]?.listings,
    (listings) => listings === 33,
  )
  world.providers.behave('alpha.example', 'serves')
  await until(world.page, (answer) => total(answer) === 33)
  world.apply(others)
  t.equal(total(await world.page({ pagination: { max_results: 100, cursor: pagination?.cursor } })), 25)
  t.equal(total(await world.page()), 33)
})

test('a saved feed with a damaged part is not served, and built again', async (t) => {
  const { world, settings } = await stopped(t)
  const file = join(world.folder, 'blobs', 'feed.blob')
  const bytes = await readFile(file)
  bytes.writeUInt8(bytes.readUInt8(bytes.length - 3) ^ 1, bytes.length - 3) // in its last row
  await writeFile(file, bytes)
  await world.start(settings, false)
  t.match(await world.page(), { adcp_error: { code: 'SERVICE_UNAVAILABLE' } })
  t.match(await world.ready(), { status: 'starting' })
  const problems = world.lines.flatMap(({ problem }) => problem ?? [])
  t.same(problems, ['blob feed is ignored: a checksum does not match'])
  world.providers.behave('alpha.example', 'serves')
  await until(world.page, (answer) => total(answer) === 25)
})

test('a saved feed whose rows did not come whole is forgotten', async (t) => {
  const { clock } = createManualClock()
  const blobs = createPassingBlobs()
  const snapshot = buildSnapshot({ slices: [sliceOf('north', [listing('s1')])], judge: judgeThat() })
  const served = { snapshot, gaps: [], rebuildAt: undefined }
  const damaged = async (name: string) =>
    (await blobs.begin(name))?.map((part, at, { length }) => {
      return name === 'feed' && at === length - 1 ? { ...part, isWhole: Promise.resolve(false) } : part
    })
  const made = (begin = blobs.begin) =>
    createSavedFeed({
      ...{ blobs: { ...blobs, begin }, clock, revision: () => 'r1' },
      onTrouble: (message) => t.fail(message),
    })
  const end = async () => {
    const saved = made()
    saved.keep(snapshot, () => served)
    await saved.close()
  }
  const noted = () => blobs.read('feed-last-served')

  await end()
  const resumed = made(damaged)
  const { gaps, chunks = [] } = (await resumed.load('r1')) ?? {}
  t.same(gaps, [], 'its columns are there')
  t.equal(await areWhole(chunks), false)
  await resumed.close()
  t.equal(await noted(), undefined, 'who comes next does not serve it either')

  await blobs.remove('feed')
  await end()
  const built = made(damaged)
  await areWhole((await built.load('r1'))?.chunks ?? [])
  await blobs.remove('feed')
  built.keep(snapshot, () => served)
  await built.close()
  t.ok(await blobs.read('feed'), 'the same feed is written again')
})

test('a feed that could not be saved leaves no note beside the copy of an earlier one', async (t) => {
  const { clock } = createManualClock()
  const blobs = createPassingBlobs()
  let isFull = false
  const write: typeof blobs.write = async (name, parts) => {
    if (isFull && name === 'feed') throw new Error('ENOSPC: no space left on device')
    await blobs.write(name, parts)
  }
  const told: string[] = []
  const made = () =>
    createSavedFeed({
      ...{ blobs: { ...blobs, write }, clock, revision: () => 'r1' },
      onTrouble: (message) => told.push(message),
    })
  const end = async (ids: readonly string[]) => {
    const slices = [
      sliceOf(
        'north',
        ids.map((id) => listing(id)),
      ),
    ]
    const snapshot = buildSnapshot({ slices, judge: judgeThat() })
    const saved = made()
    await saved.load('r1')
    saved.keep(snapshot, () => ({ snapshot, gaps: [], rebuildAt: undefined }))
    await saved.close()
  }
  const resumed = async () => {
    const { snapshot, gaps } = (await made().load('r1')) ?? {}
    return gaps && snapshot?.shown.length
  }

  await end(['s1', 's2'])
  isFull = true
  await end(['s1'])
  t.same(told, ['the feed could not be saved: ENOSPC: no space left on device'])
  t.equal(await resumed(), undefined, 'what was withdrawn since is not shown again')
  isFull = false
  await end(['s1'])
  t.equal(await resumed(), 1)
})

test('what was served last is served once, soon, and before time changes a verdict', async (t) => {
  const { clock, advance } = createManualClock()
  const blobs = createPassingBlobs()
  let served: Served | undefined
  let revision: string | undefined = 'r1'
  const made = () =>
    createSavedFeed({
      ...{ blobs, clock, revision: () => revision },
      onTrouble: (message) => t.fail(message),
    })
  const end = async (shown: Served) => {
    const saved = made()
    saved.keep(shown.snapshot, () => served)
    await saved.close()
  }
  const gapsAt = async (under = 'r1') => (await made().load(under))?.gaps
  const snapshot = buildSnapshot({ slices: [sliceOf('north', [listing('s1')])], judge: judgeThat() })
  const gaps: Served['gaps'] = [{ kind: 'others', carried: new Set(['https://north.example/mcp']) }]
  served = { snapshot, gaps, rebuildAt: clock.now() + 120_000 }

  await end(served)
  t.same(await gapsAt(), gaps)
  t.equal(await gapsAt(), undefined, 'a process that ended without order leaves no note')
  await end(served)
  const resumed = made()
  t.same((await resumed.load('r1'))?.gaps, gaps)
  await resumed.close()
  t.same(await gapsAt(), gaps, 'one that ended before it published anything leaves what it began with')
  await end(served)
  t.equal(await gapsAt('r2'), undefined, 'another configuration')
  await end(served)
  advance(60_000)
  t.equal(await gapsAt(), undefined, 'a verdict has changed')
  served = { snapshot, gaps, rebuildAt: undefined }
  await end(served)
  advance(15 * 60_000)
  t.equal(await gapsAt(), undefined, 'it was stopped for long')
  revision = undefined
  await end(served)
  t.equal(await gapsAt(), undefined, 'an operator had changed what is in force')
  revision = 'r1'
  const shown = served
  served = undefined
  await end(shown)
  t.equal(await gapsAt(), undefined, 'more was known than was served')
  const { snapshot: kept } = (await made().load('r1')) ?? {}
  t.equal(kept?.id, snapshot.id, 'what was merged is there all the same')
})
