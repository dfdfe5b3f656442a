/** Neighbouring releases side by side on one database, while one replaces the other. */
import { hash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Test, test } from 'tap'
import { bare, NO_POSTGRES } from '../store/support/storages.js'
import { callTool } from '../support/call-tool.js'
import { type Running as Process, startCommand } from '../support/command.js'
import type { Said } from '../support/replicas.js'
import { until } from '../support/until.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { OLDER, releaseAt, withOtherSnapshots } from './support/releases.js'

const TOKEN = 'a-buyer-key'
const LONGEST_MS = 280_000
const COUNT = 150 // two pages

const rows = (version: string, is_live = true) =>
  Array.from({ length: COUNT }, (_, at) => ({
    signal_agent_segment_id: `segment_${at}`,
    name: `Signal ${at} of ${version}`,
    ...{ description: 'People who drink coffee', signal_type: 'owned', data_provider: 'A House' },
    coverage_percentage: 10,
    deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live }],
    pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm: 1, currency: 'USD' }],
  }))

/**
 * Processes over one agent and one database; undefined when this machine has no PostgreSQL. `isLive`: else the agent answers an
 * activation with work that goes on, names no task, and knows none.
 */
async function cluster(t: Test, isLive = true) {
  const storage = await bare(t)
  if (!storage) return undefined
  let shown = rows('v1', isLive)
  const agent = wholesaleAgent(shown, 'v1')
  let [activations, questions] = [0, 0]
  const { url, close } = await startMcpAgent((task, args) => {
    if (task === 'get_task_status') {
      questions += 1
      return { errors: [{ code: 'REFERENCE_NOT_FOUND', message: 'There is no such task.' }] }
    }
    if (args.discovery_mode === 'brief') {
      return { status: 'completed', signals: shown.filter(({ name }) => name === args.signal_spec) }
    }
    if (task !== 'activate_signal') return agent.handle(task, args)
    activations += 1
    if (!isLive) return { status: 'working' }
    return { status: 'completed', deployments: rows('')[0]?.deployments }
  })
  t.teardown(close)
  const folder = await mkdtemp(join(tmpdir(), 'tributary-cluster-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'config.json')
  const config = {
    ...{ listen: { port: 0, drain: '0s' }, upstreams: [{ id: 'a', url, protocol: 'mcp' }] },
    ...{ defaults: { refresh: '1s' }, authorization: { policy: 'observe' } },
    egress: { allow_networks: ['127.0.0.0/8'] },
    callers: { anonymous: 'metadata', keys: [{ id: 'buyer', token_sha256: hash('sha256', TOKEN, 'hex') }] },
    storage: { url: storage.url, key: 'a storage key of the tests, long enough' },
  }
  await writeFile(file, JSON.stringify(config))

  async function start(main?: string) {
    const child: Process = startCommand(
      ['serve', '--config', file],
      {},
      { longestMs: LONGEST_MS, ...(main && { main }) },
    )
    const stop = async () => {
      child.process.kill('SIGTERM')
      await child.finished
    }
    t.teardown(stop)
    const [, at = ''] = await child.printed(/(http:\/\/127\.0\.0\.1:\d+)/)
    const ready = async () => (await fetch(`${at}/readyz`).catch(() => undefined))?.status
    await until(ready, (status) => status === 200)
    const call = (task: string, input: object) => callTool<Said>(at, task, input, TOKEN)
    const page = (cursor?: string) =>
      call('get_signals', {
        ...{ adcp_version: '3.1', discovery_mode: 'wholesale' },
        pagination: { max_results: 100, ...(cursor && { cursor }) },
      })
    return { call, page, stop }
  }
  function publish(version: string): void {
    shown = rows(version)
    agent.publish(shown, version)
  }
  return { start, publish, activations: () => activations, questions: () => questions }
}

type Member = Awaited<ReturnType<Exclude<Awaited<ReturnType<typeof cluster>>, undefined>['start']>>

const shows = (members: readonly Member[], version: string) =>
  Promise.all(
    members.map(({ page }) => until(page, ({ signals }) => signals?.[0]?.name.endsWith(` ${version}`))),
  )

/** The versions and signals of a walk whose first page one gives and whose second the other. */
async function walk(one: Member, other: Member) {
  const first = await one.page()
  const second = await other.page(first.pagination.cursor)
  const pages = [first, second]
  const names = pages.flatMap(({ signals }) => signals.map(({ name }: Said) => name as string))
  return {
    versions: new Set(pages.map((page) => page.wholesale_feed_version)).size,
    names: new Set(names).size,
  }
}

const WHOLE = { versions: 1, names: COUNT }

async function activationOf({ page }: Member) {
  const [signal] = (await page()).signals
  return {
    ...{ adcp_version: '3.1', idempotency_key: 'one-key-for-both-releases' },
    signal_agent_segment_id: signal.signal_agent_segment_id,
    pricing_option_id: signal.pricing_options[0].pricing_option_id,
    destinations: [{ type: 'platform', platform: 'the-trade-desk' }],
  }
}

test('the release before and this one serve one feed while one replaces the other, and back again', {
  skip: NO_POSTGRES,
}, async (t) => {
  const before = await releaseAt(t, OLDER)
  if (before === undefined) return void t.pass(`skipped: the history of ${OLDER} is absent`)
  const world = await cluster(t)
  if (!world) return
  const { start, publish } = world
  const older = await start(before)
  await shows([older], 'v1')
  const newer = await start()
  await shows([older, newer], 'v1')
  // This release names prices otherwise (CHANGELOG.md), so each has its own version.
  t.equal((await walk(older, newer)).names, COUNT)
  t.equal((await walk(newer, older)).names, COUNT)

  const activation = await activationOf(newer)
  const done = await newer.call('activate_signal', activation)
  t.equal(done.status, 'completed', JSON.stringify(done))
  t.match(await older.call('activate_signal', activation), { status: 'completed', replayed: true })
  t.equal(world.activations(), 1)

  publish('v2')
  await shows([older, newer], 'v2')
  await older.stop()
  publish('v3')
  await shows([newer], 'v3')

  const back = await start(before)
  await shows([back, newer], 'v3')
  await newer.stop()
  publish('v4')
  await shows([back], 'v4')
  t.match(await back.call('activate_signal', activation), { status: 'completed', replayed: true })
})

test('the release before leaves work alone that goes on without a task of the upstream', {
  skip: NO_POSTGRES,
}, async (t) => {
  const before = await releaseAt(t, OLDER)
  if (before === undefined) return void t.pass(`skipped: the history of ${OLDER} is absent`)
  const world = await cluster(t, false)
  if (!world) return
  const newer = await world.start()
  await shows([newer], 'v1')
  const begun = await newer.call('activate_signal', await activationOf(newer))
  const dueAt = Date.now() + 5_000
  t.equal(begun.status, 'submitted', JSON.stringify(begun))
  await newer.stop()
  const older = await world.start(before)
  const ask = (member: Member) =>
    member.call('get_task_status', { adcp_version: '3.1', task_id: begun.task_id })
  await until(
    () => ask(older),
    () => Date.now() > dueAt + 2_000, // by then it would have taken the job up by itself, too
  )
  t.match(await ask(older), { status: 'submitted' })
  t.equal(world.questions(), 0, 'the agent is not asked about a task without a name')
  await older.stop()
  world.publish('v1')
  const back = await world.start()
  const ended = await until(
    () => ask(back),
    ({ status }) => status !== 'submitted',
  )
  t.match(ended, { status: 'completed' })
})

test('a release with snapshots of another form becomes ready, serves, and replaces this one', {
  skip: NO_POSTGRES,
}, async (t) => {
  const world = await cluster(t)
  if (!world) return
  const { start, publish } = world
  const this_ = await start()
  const other = await start(await withOtherSnapshots(t))
  await shows([this_, other], 'v1')
  publish('v2')
  await shows([this_, other], 'v2')
  const pages = [await this_.page(), await other.page()]
  t.equal(pages[0]?.wholesale_feed_version, pages[1]?.wholesale_feed_version, 'of one feed')
  t.same(await walk(this_, other), WHOLE, 'a walk goes on in what the other holds')
  t.same(await walk(other, this_), WHOLE)
  await this_.stop()
  publish('v3')
  await shows([other], 'v3')
  const joined = await start()
  await shows([joined, other], 'v3')
})
