import { test } from 'tap'
import { sliceListing } from '../../src/upstreams/rows/slice.js'
import { sameRows } from '../support/same-rows.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { createManualClock } from '../support/upstream-clock.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { configOf, openUpstreams, row, rows, until, urlOf } from '../support/upstream-world.js'

for (const flavour of [
  { sessions: false, json: true },
  { sessions: false, json: false },
  { sessions: true, json: true },
  { sessions: true, json: false },
]) {
  test(`a wholesale feed is mirrored whole: ${JSON.stringify(flavour)}`, async (t) => {
    const feed = wholesaleAgent(rows(250), 'v1')
    const agent = await startMcpAgent(feed.handle, flavour)
    t.teardown(agent.close)
    const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }]))
    await upstreams.start()
    await until('a slice', () => upstreams.slices().length === 1)
    const [slice] = upstreams.slices()
    t.equal(slice?.rows.count, 250)
    t.equal(slice?.feedVersion, 'v1')
    t.equal(slice?.mode, 'wholesale')
    t.same(slice && sliceListing(slice, 249), row(249))
    t.match(upstreams.statuses(), [{ id: 'a', protocol: 'mcp', state: 'fresh', listings: 250 }])
    t.same([...upstreams.providerDomains().values()], [['tridentauto.example']])
  })
}

test('agents that are read at once, in memory that is used again, keep their own rows', async (t) => {
  const rowsOf = (agent: number) =>
    rows(600).map((each) => ({ ...each, description: `of agent ${agent}, ${'at length '.repeat(90)}` }))
  const agents = await Promise.all(
    [1, 2, 3].map((agent) =>
      startMcpAgent(wholesaleAgent(rowsOf(agent), 'v1').handle, { sessions: false, json: true }),
    ),
  )
  for (const { close } of agents) t.teardown(close)
  const statics = agents.map(({ url }, at) => ({ id: `agent-${at + 1}`, url }))
  const { upstreams } = await openUpstreams(t, configOf(statics))
  await upstreams.start()
  await until('slices', () => upstreams.slices().length === agents.length)
  for (const slice of upstreams.slices()) {
    const expected = rowsOf(Number(slice.upstream.at(-1)))
    sameRows(
      t,
      expected.map((_, at) => sliceListing(slice, at)),
      expected,
    )
  }
})

test('an unchanged poll moves the freshness and nothing else', async (t) => {
  const feed = wholesaleAgent(rows(30), 'v1')
  const agent = await startMcpAgent(feed.handle)
  t.teardown(agent.close)
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }], { refreshMs: 20 }))
  let changes = 0
  await upstreams.start()
  upstreams.onChange(() => {
    changes += 1
  })
  await until('a slice', () => upstreams.slices().length === 1)
  const before = upstreams.slices()
  const confirmed = upstreams.statuses()[0]?.confirmedAt ?? 0
  await until('confirmations', () => (upstreams.statuses()[0]?.confirmedAt ?? 0) > confirmed + 50)
  t.equal(upstreams.slices(), before)
  t.equal(changes, 1)
  t.equal(feed.pages(), 2, 'one page was read, and one looked at')
  feed.publish([...rows(30), row(30)], 'v2')
  await until('the new row', () => upstreams.slices()[0]?.rows.count === 31)
  t.equal(changes, 2)
})

test('an agent that refuses the list of fields is asked without it', async (t) => {
  const feed = wholesaleAgent(rows(150), 'v1')
  let refusals = 0
  const agent = await startMcpAgent((task, args) => {
    if (!args.fields) return feed.handle(task, args)
    refusals += 1
    return { status: 'failed', adcp_error: { code: 'INVALID_REQUEST', message: 'fields', field: 'fields' } }
  })
  t.teardown(agent.close)
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }]))
  await upstreams.start()
  await until('a slice', () => upstreams.slices()[0]?.rows.count === 150)
  t.equal(refusals, 1, 'once is enough')
})

test('a new configuration disturbs only whom it touches, and loses no rows meanwhile', async (t) => {
  const feeds = [1, 2].map(() => wholesaleAgent(rows(20), 'v1'))
  const agents = await Promise.all(feeds.map(({ handle }) => startMcpAgent(handle)))
  for (const agent of agents) t.teardown(agent.close)
  const statics = agents.map(({ url }, at) => ({ id: `a${at}`, url }))
  const { upstreams } = await openUpstreams(t, configOf(statics))
  await upstreams.start()
  await until('both slices', () => upstreams.slices().length === 2)
  await until('their ends', () => upstreams.statuses().every(({ nextAttemptAt }) => nextAttemptAt))
  const walkedAt = (id: string) => upstreams.statuses().find((status) => status.id === id)?.walkedAt
  const sliceOf = (id: string) => upstreams.slices().find(({ upstream }) => upstream === id)
  const [first, second] = statics
  if (!first || !second) throw new Error('two agents were started')
  const slice = sliceOf('a0')
  const renamed = { ...second, id: 'renamed' }
  const pace = { timeoutMs: 5_000, refreshMs: 45_000, pageSize: 10, concurrency: 2 }
  upstreams.reconfigure(configOf([first, renamed], pace))
  t.equal(sliceOf('a0'), slice, 'the very slice is kept')
  t.equal(sliceOf('renamed')?.rows.count, 20, 'under its new name at once')
  t.same(
    upstreams.statuses().map(({ state }) => state),
    ['fresh', 'fresh'],
  )
  t.ok(
    upstreams.statuses().every(({ nextAttemptAt = 0 }) => nextAttemptAt - Date.now() <= 49_500),
    'a shorter schedule holds for who runs',
  )
  t.same(
    feeds.map(({ pages }) => pages()),
    [1, 1],
    'nobody was read again',
  )

  const before = walkedAt('renamed')
  const held = walkedAt('a0')
  const auth = { type: 'bearer' as const, token: 'another' }
  upstreams.reconfigure(configOf([first, { ...renamed, auth }], pace))
  t.equal(upstreams.slices().length, 2)
  await until('the walk with another credential', () => walkedAt('renamed') !== before)
  t.equal(walkedAt('a0'), held)
  t.throws(() => upstreams.reconfigure(configOf([{ url: 'nonsense' }])), /nonsense/)
  upstreams.reconfigure(configOf([first]))
  t.equal(upstreams.slices().length, 1)
})

test('what is asked for in the moment in which a reading ends is read', async (t) => {
  const feed = wholesaleAgent(rows(3), 'v1')
  const agent = await startMcpAgent(feed.handle)
  t.teardown(agent.close)
  const { clock, advance } = createManualClock()
  const refreshMs = 100_000
  let onEnd = () => {}
  const theEnd = () =>
    new Promise<void>((resolve) => {
      onEnd = resolve
    })
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }], { refreshMs }), {
    random: () => 0.5, // when a reading ends, the next one is scheduled in exactly `refreshMs`
    clock: {
      ...clock,
      after(ms, run) {
        if (ms === refreshMs) onEnd()
        return clock.after(ms, run)
      },
    },
  })
  let ended = theEnd()
  await upstreams.start()
  for (let steps = 0; steps < 10; steps += 1) {
    await ended
    for (let left = steps; left > 0; left -= 1) await undefined
    feed.publish(rows(4 + steps), `v${2 + steps}`)
    upstreams.refreshSoon(urlOf(upstreams, 'a'))
    const wait = (upstreams.statuses()[0]?.nextAttemptAt ?? 0) - clock.now()
    if (!t.ok(wait <= 1_000, `asked for after ${steps} steps, and due in ${wait} ms`)) return
    ended = theEnd()
    advance(wait)
  }
  await ended
  t.equal(upstreams.slices()[0]?.rows.count, 13)
})

test('a reading that comes sooner than the one that was asked for serves no later request', async (t) => {
  const feed = wholesaleAgent(rows(3), 'v1')
  const { clock, advance } = createManualClock()
  let [reads, takesMs] = [0, 0]
  const agent = await startMcpAgent((task, args) => {
    if (task === 'get_signals') {
      reads += 1
      advance(takesMs)
    }
    return feed.handle(task, args)
  })
  t.teardown(agent.close)
  const config = (refreshMs: number) => configOf([{ id: 'a', url: agent.url }], { refreshMs })
  const { upstreams } = await openUpstreams(t, config(3_600_000), { clock, random: () => 0.5 })
  const wait = () => (upstreams.statuses()[0]?.nextAttemptAt ?? 0) - clock.now()
  async function readAfter(ms: number): Promise<void> {
    const before = reads
    advance(ms)
    await until('a reading', () => reads > before && wait() > 0)
  }
  await upstreams.start()
  await until('the first one', () => wait() > 0)
  takesMs = 10_000
  for (const ms of [0, 1_000]) {
    upstreams.refreshSoon(urlOf(upstreams, 'a'))
    await readAfter(ms)
  }
  takesMs = 0
  upstreams.refreshSoon(urlOf(upstreams, 'a'))
  t.equal(wait(), 60_000, 'what is asked for again has to rest')
  upstreams.reconfigure(config(2_000))
  await readAfter(2_000)
  upstreams.reconfigure(config(3_600_000))
  await readAfter(2_000)
  t.equal(wait(), 3_600_000)
  upstreams.refreshSoon(urlOf(upstreams, 'a'))
  t.ok(wait() <= 60_000, `asked for since, and due in ${wait()} ms`)
})

test('a token is believed for a day: then everything is read again, whatever it says', async (t) => {
  const feed = wholesaleAgent(rows(20), 'v1')
  const agent = await startMcpAgent(feed.handle)
  t.teardown(agent.close)
  const time = createManualClock()
  const hour = 3_600_000
  const pace = { refreshMs: hour, dropAfterMs: 100 * hour, pageSize: 5 }
  const config = configOf([{ id: 'a', url: agent.url }], pace)
  // With this dice, pages are looked at from the first on, and never the last.
  const { upstreams } = await openUpstreams(t, config, { clock: time.clock, random: () => 0 })
  await upstreams.start()
  await until('a slice', () => upstreams.slices().length === 1)
  feed.publish([...rows(19), row(19, { name: 'Renamed' })], 'v1') // its version is computed over the first rows only
  const walkedAt = () => upstreams.statuses()[0]?.walkedAt ?? 0
  const before = walkedAt()
  await until('the walk', () => {
    if ((upstreams.statuses()[0]?.nextAttemptAt ?? 0) > time.clock.now()) time.advance(hour / 4)
    return walkedAt() > before
  })
  t.ok(walkedAt() - before >= 24 * hour)
  t.ok(walkedAt() - before <= 26 * hour)
  const [slice] = upstreams.slices()
  t.equal(slice && sliceListing(slice, 19).name, 'Renamed')
})
