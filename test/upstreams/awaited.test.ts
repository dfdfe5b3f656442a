/** What a caller waits for goes ahead of work of our own, and what nobody waits for does not. */
import { test } from 'tap'
import type { Outbound } from '../../src/net/send.js'
import { until } from '../support/until.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { configOf, loopbackEgress, openUpstreams, urlOf } from '../support/upstream-world.js'

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
  t.equal(
    (await upstreams.call(urlOf(upstreams, 'a'), 'get_signals', { signal_spec: 'coffee' }, { deadline }))
      .kind,
    'answer',
  )
  t.equal(sent.at(-1), true)
})

test('a change that was told as not sent is not sent later, whatever the clock says by then', async (t) => {
  const arrived: unknown[] = []
  let answer = () => {}
  const agent = await startMcpAgent(async (task, { signal_agent_segment_id: wish }) => {
    if (task !== 'activate_signal') return task === 'get_signals' ? { signals: [] } : CAPABILITIES
    arrived.push(wish)
    if (wish === 'first') await new Promise<void>((resolve) => (answer = resolve))
    return { status: 'completed' }
  })
  t.teardown(agent.close)
  const statics = [{ id: 'a', url: agent.url, protocol: 'mcp' }] as const
  const { upstreams } = await openUpstreams(t, configOf(statics, { concurrency: 1 }))
  await upstreams.start()
  const { now } = Date
  t.teardown(() => {
    Date.now = now
  })
  const change = (wish: string, ms: number) =>
    upstreams.call(
      urlOf(upstreams, 'a'),
      'activate_signal',
      { signal_agent_segment_id: wish },
      { deadline: now() + ms },
    )
  t.match(await change('none', 60_000), { kind: 'answer' })
  const first = change('first', 60_000)
  await until(
    () => arrived.length,
    (count) => count === 2,
  )
  const second = change('second', 1_500)
  await new Promise(setImmediate) // it waits for the place
  Date.now = () => now() - 60_000
  t.match(await second, { kind: 'failed', reason: 'timeout', unsent: true })
  answer()
  t.equal((await first).kind, 'answer')
  t.match(await change('third', 60_000), { kind: 'answer' })
  t.same(arrived, ['none', 'first', 'third'])
})
