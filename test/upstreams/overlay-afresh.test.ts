import { test } from 'tap'
import { startMcpAgent, type TaskHandler } from '../support/upstream-agent.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { configOf, openUpstreams, row, until } from '../support/upstream-world.js'

test('a fresh reading of an overlay settles neither for the last one nor for one under way', async (t) => {
  let version = 0
  let reads = 0
  let meanwhile = () => {}
  const handle: TaskHandler = (task, { account }) => {
    if (task !== 'get_signals') return CAPABILITIES
    const answer = {
      ...{ status: 'completed', signals: [row(version)], cache_scope: account ? 'account' : 'public' },
      ...{ wholesale_feed_version: `v${version}`, pagination: { has_more: false } },
    }
    if (account) {
      reads += 1
      meanwhile()
    }
    return answer
  }
  const agent = await startMcpAgent(handle)
  t.teardown(agent.close)
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }]))
  await upstreams.start()
  await until('a slice', () => upstreams.slices().length === 1)
  const scope = { scope: 'gold', account: { account_id: 'gold' } }
  async function read(fresh?: boolean) {
    const outcome = await upstreams.overlay('a', scope, Date.now() + 5_000, fresh)
    return outcome.kind === 'slice' ? outcome.slice.feedVersion : outcome.kind
  }

  t.equal(await read(), 'v0')
  version = 1
  t.equal(await read(), 'v0', 'what was read last is enough for who asks no more')
  let later: Promise<(string | undefined)[]> = Promise.resolve([])
  meanwhile = () => {
    meanwhile = () => {}
    version = 2 // after the answer was made
    later = Promise.all([read(true), read(true)])
  }
  t.equal(await read(true), 'v1')
  t.same(await later, ['v2', 'v2'])
  t.equal(reads, 3, 'both by one reading')
})
