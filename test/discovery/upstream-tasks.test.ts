/** What an upstream says of the task with which it answered a question, one question after the other. */
import { type Test, test } from 'tap'
import { systemClock } from '../../src/net/clock.js'
import { createAsker } from '../../src/upstreams/asker.js'
import { createLatencies } from '../../src/upstreams/latencies.js'
import { NO_ROWS } from '../../src/upstreams/rows/read-rows.js'
import { type Said, startOver } from '../support/federation-over.js'
import { until } from '../support/until.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'

const TOOLS = ['get_signals', 'get_task_status', 'get_adcp_capabilities'].map((name) => ({
  ...{ name, inputSchema: { type: 'object' as const } },
}))
const LATE = { ...row(2), name: 'Coffee drinkers found late' }
const DONE = { task_id: 'theirs', status: 'completed', result: { signals: [LATE] } }

/** The signals of a question at whose task an upstream says these things, and the last of them for ever. */
async function signalsAfter(t: Test, ...turns: readonly Said[]): Promise<string[]> {
  let asked = 0
  const agent = await startMcpAgent(
    (task, args) => {
      if (task === 'get_adcp_capabilities') return CAPABILITIES
      if (task === 'get_task_status') return turns[Math.min(asked++, turns.length - 1)]
      const isQuestion = args.signal_spec !== undefined
      return isQuestion
        ? { status: 'submitted', task_id: 'theirs' }
        : { status: 'completed', signals: [row(1)] }
    },
    {},
    TOOLS,
  )
  t.teardown(() => agent.close())
  const over = await startOver(t, [{ id: 'north', url: agent.url, protocol: 'mcp' }], {
    egress: { allow_networks: ['127.0.0.0/8'], webhook_networks: ['127.0.0.0/8'] },
  })
  const { task_id } = await over.call('get_signals', {
    ...{ signal_spec: 'coffee drinkers', time_budget: { interval: 1, unit: 'seconds' } },
    push_notification_config: {
      url: 'http://127.0.0.1:9/hook',
      authentication: { schemes: ['Bearer'], credentials: 'a-bearer-token-of-at-least-32-characters' },
    },
  })
  const status = () => over.call('get_task_status', { task_id, include_result: true })
  const { result } = await until<Said>(status, (said) => said.status === 'completed')
  return result.signals.map(({ name }: Said) => name)
}

test('an error that does not say how the task stands costs no rows', async (t) => {
  const error = { adcp_error: { code: 'PERMISSION_DENIED', message: 'not now' } }
  const names = await signalsAfter(t, error, { status: 'TASK_STATE_WORKING' }, DONE)
  t.ok(names.includes(LATE.name), names.join())
})

test('what is said of another task is not taken for the answer', async (t) => {
  const names = await signalsAfter(
    t,
    { ...DONE, task_id: 'of-another', result: { signals: [{ ...LATE, name: 'Theirs' }] } },
    DONE,
  )
  t.ok(names.includes(LATE.name), names.join())
  t.notOk(names.includes('Theirs'), names.join())
})

test('a task whose id is longer than may be kept is none', async (t) => {
  const answer = (task_id: string) =>
    ({ kind: 'answer', payload: { status: 'submitted', task_id }, rows: NO_ROWS }) as const
  const asked = { agentUrl: 'https://a.example/mcp', args: { signal_spec: 'coffee' }, scope: 'public' }
  for (const [length, kind] of [
    [255, 'submitted'],
    [256, 'answered'],
    [500_000, 'answered'],
  ] as const) {
    const call = async () => answer('t'.repeat(length))
    const ask = createAsker({ call, clock: systemClock, latencies: createLatencies(systemClock) })
    const said = await ask(asked, Date.now() + 60_000, new AbortController().signal)
    t.equal(said.kind, kind, `${length} characters`)
  }
})
