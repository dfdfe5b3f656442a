/** A process that does not read an agent, because another one does, still notices when it answers callers again. */
import { test } from 'tap'
import { OTHERS_TURNS } from '../support/others-turns.js'
import { until } from '../support/until.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { configOf, openUpstreams, urlOf } from '../support/upstream-world.js'

test('calls that failed too often are made again once a small question is answered', async (t) => {
  let isDown = true
  const agent = await startMcpAgent((task) =>
    task === 'get_adcp_capabilities' ? CAPABILITIES : { status: 'completed', signals: [] },
  )
  t.teardown(agent.close)
  agent.server.on('connection', (socket) => isDown && socket.destroy())
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url, protocol: 'mcp' }]), {
    sharing: OTHERS_TURNS,
  })
  await upstreams.start()
  const call = () =>
    upstreams.call(
      urlOf(upstreams, 'a'),
      'get_signals',
      { signal_spec: 'coffee' },
      { deadline: Date.now() + 60_000 },
    )
  const failed = await until(call, (outcome) => outcome.kind === 'failed' && outcome.reason === 'backing_off')
  t.ok(failed.kind === 'failed' && failed.retryAfterMs !== undefined, 'it says when to come again')
  isDown = false
  t.equal((await until(call, ({ kind }) => kind !== 'failed')).kind, 'answer')
})
