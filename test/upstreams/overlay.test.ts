import { test } from 'tap'
import { sliceListing } from '../../src/upstreams/rows/slice.js'
import { startMcpAgent, type TaskHandler } from '../support/upstream-agent.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { configOf, openUpstreams, row, until } from '../support/upstream-world.js'

/** Gold pays less; every other account pays the rate card. */
function accountAgent() {
  let reads = 0
  const handle: TaskHandler = (task, args) => {
    if (task !== 'get_signals') return CAPABILITIES
    const { account_id: account } = (args.account ?? {}) as { account_id?: string }
    if (account) reads += 1
    const cpm = account === 'gold' ? 1 : 2
    const option = { pricing_option_id: 'po', model: 'cpm', cpm, currency: 'USD' }
    return {
      status: 'completed',
      signals: [row(0, { pricing_options: [option] })],
      cache_scope: account === 'gold' ? 'account' : 'public',
      wholesale_feed_version: 'v1',
      pagination: { has_more: false },
    }
  }
  return { handle, reads: () => reads }
}

async function opened(t: { teardown(task: () => unknown): void }) {
  const logic = accountAgent()
  const agent = await startMcpAgent(logic.handle)
  t.teardown(agent.close)
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }]))
  await upstreams.start()
  await until('a slice', () => upstreams.slices().length === 1)
  return { upstreams, logic }
}

const soon = () => Date.now() + 5_000

test('an account with prices of its own gets a slice of its own, read once', async (t) => {
  const { upstreams, logic } = await opened(t)
  const scope = { scope: 'gold', account: { account_id: 'gold' } }
  const first = await upstreams.overlay('a', scope, soon())
  const second = await upstreams.overlay('a', scope, soon())
  t.equal(first, second)
  t.equal(logic.reads(), 1)
  if (first.kind !== 'slice') return t.fail(first.kind)
  t.equal(first.slice.scope, 'gold')
  t.match(sliceListing(first.slice, 0).pricing_options, [{ cpm: 1 }])
  const [shared] = upstreams.slices()
  t.match(shared && sliceListing(shared, 0).pricing_options, [{ cpm: 2 }], 'the public slice is untouched')
})

test('an account priced off the rate card has no overlay', async (t) => {
  const { upstreams } = await opened(t)
  const scope = { scope: 'silver', account: { account_id: 'silver' } }
  t.same(await upstreams.overlay('a', scope, soon()), { kind: 'public' })
})

test('an overlay of an unknown upstream is a failure with a word for it', async (t) => {
  const { upstreams } = await opened(t)
  t.match(await upstreams.overlay('b', { scope: 'x' }, soon()), {
    kind: 'failed',
    reason: 'unknown_upstream',
  })
})
