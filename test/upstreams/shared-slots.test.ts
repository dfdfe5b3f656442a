/** What agents share when they are asked: one that never answers keeps neither others nor callers waiting. */
import { getEventListeners, setMaxListeners } from 'node:events'
import { test } from 'tap'
import type { Send } from '../../src/net/send.js'
import type { AgentOutcome } from '../../src/upstreams/agent/agent.js'
import { NO_ROWS } from '../../src/upstreams/rows/read-rows.js'
import { createSlots } from '../../src/upstreams/walk/governor.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { configOf, loopbackEgress, openUpstreams, rows, until } from '../support/upstream-world.js'

const ANSWER: AgentOutcome = { kind: 'answer', payload: {}, rows: NO_ROWS }
const BUDGET = { timeoutMs: 60_000 }

/** Places for agents, and how many of their calls are under way that never end until the test does. */
function world() {
  const slots = createSlots()
  const giveUp = new AbortController()
  setMaxListeners(0, giveUp.signal)
  let underWay = 0
  return {
    underWay: () => underWay,
    giveUp: () => giveUp.abort(),
    async hang(url: string, isAwaited = false) {
      await slots(url, 4)({ ...BUDGET, isAwaited, signal: giveUp.signal }, ({ signal }) => {
        underWay += 1
        return new Promise((resolve) => signal?.addEventListener('abort', () => resolve(ANSWER)))
      })
    },
    answer: (url: string, isAwaited = false, timeoutMs = BUDGET.timeoutMs) =>
      slots(url, 4)({ timeoutMs, isAwaited }, () => Promise.resolve(ANSWER)),
  }
}

for (const isAwaited of [false, true]) {
  const what = isAwaited ? 'calls' : 'readings'

  test(`2,000 ${what} of one site that never end keep no other site waiting`, async (t) => {
    const { hang, answer, underWay, giveUp } = world()
    const all = Array.from({ length: 2_000 }, (_, at) => {
      return hang(`https://host-${at % 50}.hung.example/${at}/mcp`, isAwaited)
    })
    t.equal(await answer('https://signals.good.example/mcp', isAwaited), ANSWER)
    t.equal(underWay(), 128)
    giveUp()
    await Promise.all(all)
  })
}

test('nor do those of one host keep the other hosts of its site', async (t) => {
  const { hang, answer, underWay, giveUp } = world()
  const all = Array.from({ length: 1_000 }, (_, at) => hang(`https://hung.site.example/${at}/mcp`))
  t.equal(await answer('https://good.site.example/mcp'), ANSWER)
  t.equal(await answer('https://hung.site.example:8443/mcp'), ANSWER)
  t.equal(underWay(), 64)
  giveUp()
  await Promise.all(all)
})

test('who gives up waits no longer: it is answered, and others have its place in the line', async (t) => {
  const call = createSlots()('https://signals.slow.example/mcp', 4)
  const ends: (() => void)[] = []
  const hung = Array.from({ length: 4 }, () =>
    call({ ...BUDGET, isAwaited: true }, () => new Promise((resolve) => ends.push(() => resolve(ANSWER)))),
  )
  const left = new AbortController()
  const aborted = Array.from({ length: 100 }, () =>
    call({ ...BUDGET, isAwaited: true, signal: left.signal }, async () => ANSWER),
  )
  const late = Array.from({ length: 100 }, () => call({ timeoutMs: 20, isAwaited: true }, async () => ANSWER))
  t.match(await call({ ...BUDGET, isAwaited: true }, async () => ANSWER), { reason: 'backing_off' })
  t.equal(getEventListeners(left.signal, 'abort').length, 1, 'more would be told as a leak')
  left.abort()
  for (const outcome of await Promise.all(aborted)) t.match(outcome, { kind: 'failed', reason: 'aborted' })
  for (const outcome of await Promise.all(late)) t.match(outcome, { kind: 'failed', reason: 'timeout' })
  const gone = call({ ...BUDGET, isAwaited: true, signal: left.signal }, async () => ANSWER)
  t.match(await gone, { kind: 'failed', reason: 'aborted' }, 'it had given up before it asked')
  const next = call({ ...BUDGET, isAwaited: true }, async () => ANSWER)
  for (const end of ends) end()
  t.equal(await next, ANSWER)
  await Promise.all(hung)
})

test('who gives up behind the hosts of its site leaves those places as well', async (t) => {
  const { hang, answer, giveUp } = world()
  const site = Array.from({ length: 128 }, (_, at) => hang(`https://host-${at % 2}.site.example/${at}/mcp`))
  const outcome = await answer('https://other.site.example/mcp', false, 20)
  t.match(outcome, { kind: 'failed', reason: 'timeout' })
  giveUp()
  await Promise.all(site)
  t.equal(await answer('https://other.site.example/mcp'), ANSWER)
})

test('a call goes out while readings have all their places and the agent itself waits for one', async (t) => {
  const agent = await startMcpAgent(wholesaleAgent(rows(3), 'v1').handle)
  t.teardown(agent.close)
  const { send: reach } = loopbackEgress(t)
  const late = 'https://signals.late.example/mcp' // the last in the order of names
  let hung = 0
  const send: Send = async (request) => {
    if (request.url === late) return await reach({ ...request, url: agent.url })
    hung += 1
    return await new Promise((resolve) => {
      const end = () => resolve({ kind: 'failed', reason: 'aborted', message: 'given up' })
      request.signal?.addEventListener('abort', end)
    })
  }
  const others = Array.from({ length: 1_100 }, (_, at) => `https://signals.hung-${at % 20}.example/${at}/mcp`)
  const statics = [...others, late].map((url) => ({ url, protocol: 'mcp' as const }))
  const config = configOf(statics, { concurrency: 1, timeoutMs: 600_000 })
  const { upstreams } = await openUpstreams(t, config, { send, random: () => 0 })
  await upstreams.start()
  await until('readings in all places', () => hung === 1_024)
  t.same(upstreams.slices(), [])
  const deadline = Date.now() + 10_000
  const args = { discovery_mode: 'wholesale', pagination: {} }
  const outcome = await upstreams.call(late, 'get_signals', args, { deadline })
  t.match(outcome, { kind: 'answer' })
  t.same(upstreams.slices(), [], 'its reading still waits')
  t.equal(hung, 1_024)
})
