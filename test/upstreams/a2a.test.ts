import { test } from 'tap'
import { startA2aAgent } from '../support/upstream-a2a.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { configOf, openUpstreams, rows, until, urlOf } from '../support/upstream-world.js'

for (const versions of [['1.0'], ['0.3'], ['1.0', '0.3']] as const) {
  test(`an A2A agent that speaks ${versions.join(' and ')} is found by its card and mirrored`, async (t) => {
    const agent = await startA2aAgent(wholesaleAgent(rows(120), 'v1').handle, versions)
    t.teardown(agent.close)
    const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }]))
    await upstreams.start()
    await until('a slice', () => upstreams.slices().length === 1)
    t.match(upstreams.statuses(), [{ protocol: 'a2a', mode: 'wholesale', state: 'fresh', listings: 120 }])
  })
}

test('an AdCP error comes out of a failed task as an error, with its code', async (t) => {
  const agent = await startA2aAgent(
    () => ({
      status: 'failed',
      adcp_error: { code: 'REFERENCE_NOT_FOUND', message: 'no such segment', recovery: 'correctable' },
    }),
    ['1.0'],
  )
  t.teardown(agent.close)
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url, protocol: 'a2a' }]))
  await upstreams.start()
  const outcome = await upstreams.call(
    urlOf(upstreams, 'a'),
    'activate_signal',
    {},
    { deadline: Date.now() + 60_000 },
  )
  t.match(outcome, { kind: 'error', error: { code: 'REFERENCE_NOT_FOUND', recovery: 'correctable' } })
})
