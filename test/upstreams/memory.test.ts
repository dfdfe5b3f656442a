import { test } from 'tap'
import { startMcpAgent } from '../support/upstream-agent.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { configOf, openUpstreams, rows, until } from '../support/upstream-world.js'

const limits = { rowsPerUpstream: 2_000, rowBytes: 64 * 1024, pageBytes: 4 * 1024 ** 2, memoryBytes: 600_000 }

test("the greediest upstream's rows give way when memory is full, and nobody else's", async (t) => {
  const feeds = { modest: 100, greedy: 1_500, other: 100 }
  const agents = Object.entries(feeds).map(async ([id, count]) => {
    const agent = await startMcpAgent(wholesaleAgent(rows(count), 'v1').handle)
    t.teardown(agent.close)
    return { id, url: agent.url }
  })
  const config = { ...configOf(await Promise.all(agents)), limits }
  const { upstreams } = await openUpstreams(t, config)
  await upstreams.start()
  const state = (id: string) => upstreams.statuses().find((one) => one.id.startsWith(id))
  await until('all have answered', () =>
    upstreams.statuses().every(({ listings, problem }) => listings > 0 || problem),
  )
  t.match(state('greedy'), { listings: 0, problem: { reason: 'over_memory' } })
  t.match(state('modest'), { state: 'fresh', listings: 100 })
  t.match(state('other'), { state: 'fresh', listings: 100 })
  t.ok(upstreams.memory().usedBytes < limits.memoryBytes)
  t.ok(upstreams.memory().evictions > 0)
})

test('an upstream gives no more rows than it may, on however few pages', async (t) => {
  const agent = await startMcpAgent((task) =>
    task === 'get_signals'
      ? { status: 'completed', signals: rows(2_001), wholesale_feed_version: 'v1', cache_scope: 'public' }
      : wholesaleAgent([], 'v1').handle(task, {}),
  )
  t.teardown(agent.close)
  const roomy = { ...limits, memoryBytes: 1024 ** 3 }
  const { upstreams } = await openUpstreams(t, { ...configOf([{ id: 'a', url: agent.url }]), limits: roomy })
  await upstreams.start()
  await until('it failed', () => upstreams.statuses()[0]?.problem !== undefined)
  t.match(upstreams.statuses()[0], { listings: 0, problem: { reason: 'endless_feed' } })
})
