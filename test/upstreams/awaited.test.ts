/** What a caller waits for goes ahead of work of our own, and what nobody waits for does not. */
import { test } from 'tap'
import type { Outbound } from '../../src/net/send.js'
import { until } from '../support/until.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { configOf, loopbackEgress, openUpstreams } from '../support/upstream-world.js'

const taskOf = ({ body }: Outbound) => /"name":"(get_signals|activate_signal)"/.exec(String(body))?.[1]

test("a caller's request says so, and a reading does not", async (t) => {
  const agent = await startMcpAgent((task) =>
    task === 'get_adcp_capabilities' ? CAPABILITIES : { status: 'completed', signals: [] },
  )
  t.teardown(agent.close)
  const { send } = loopbackEgress(t)
  const sent: (boolean | undefined)[] = []
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url, protocol: 'mcp' }]), {
    send(request) {
      if (taskOf(request)) sent.push(request.isAwaited)
      return send(request)
    },
  })
  await upstreams.start()
  await until(
    () => sent.length,
    (count) => count > 0,
  )
  t.same(new Set(sent), new Set([undefined]))
  const deadline = Date.now() + 60_000
  t.equal((await upstreams.call('a', 'get_signals', { signal_spec: 'coffee' }, { deadline })).kind, 'answer')
  t.equal(sent.at(-1), true)
})
