/** What an upstream says of its task, one question after the other. */
import { type Test, test } from 'tap'
import { activationOf, type Said, startOver, TRADE_DESK } from '../support/federation-over.js'
import { until } from '../support/until.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'

type Fields = Record<string, unknown>

const TOOLS = ['get_signals', 'activate_signal', 'get_task_status', 'get_adcp_capabilities'].map((name) => ({
  ...{ name, inputSchema: { type: 'object' as const } },
}))

/** A task at an upstream that says these things of it, and the last of them for ever. */
async function taskThatIs(t: Test, ...turns: readonly Fields[]) {
  let asked = 0
  const agent = await startMcpAgent(
    (task) => {
      if (task === 'get_adcp_capabilities') return CAPABILITIES
      if (task === 'get_signals') return { status: 'completed', signals: [row(1)] }
      if (task === 'activate_signal') return { status: 'submitted', task_id: 'theirs' }
      asked += 1
      return { task_id: 'theirs', ...turns[Math.min(asked, turns.length) - 1] }
    },
    {},
    TOOLS,
  )
  t.teardown(() => agent.close())
  const over = await startOver(t, [{ id: 'north', url: agent.url, protocol: 'mcp' }])
  const [signal] = (await over.wholesale()).signals
  const { task_id } = await over.call('activate_signal', activationOf(signal))
  const status = () => over.call('get_task_status', { task_id, include_result: true })
  return { over, status, asked: () => asked }
}

test('a task that was worked on never waits again', async (t) => {
  const { status, asked } = await taskThatIs(t, { status: 'working' }, { status: 'submitted' })
  const said: string[] = []
  await until(
    async () => said.push((await status()).status),
    () => asked() >= 3,
  )
  const first = said.indexOf('working')
  t.same([...new Set(said.slice(first))], ['working'])
})

test('a task that is completed with errors in its result has failed', async (t) => {
  const errors = [{ code: 'TERMS_REJECTED', message: 'not with you' }]
  const { over, status } = await taskThatIs(t, { status: 'completed', result: { errors } })
  const ended = await until<Said>(status, (said) => said.status !== 'submitted')
  t.match(ended, { status: 'failed', error: { details: { upstream_code: 'TERMS_REJECTED' } } })
  t.match(await (await over.stored()).ledger.query({}, 5), [{ outcome: 'failed' }])
})

test('what an upstream says of another task ends nothing, and its keys are told to nobody', async (t) => {
  const deployments = (segment_id: string) => [
    { ...TRADE_DESK, is_live: true, activation_key: { type: 'segment_id', segment_id } },
  ]
  const ofAnother = { status: 'completed', result: { deployments: deployments('of-another') } }
  const { status, asked } = await taskThatIs(
    t,
    { ...ofAnother, task_id: 'another' },
    { ...ofAnother, task_id: undefined, task: { task_id: 'another' } },
    { status: 'failed', task_id: 'another', adcp_error: { code: 'TERMS_REJECTED', message: 'no' } },
    { status: 'working', task_id: 'the-asking', result: { task_id: 'theirs', status: 'working' } },
    {
      status: 'completed',
      task_id: 'the-asking',
      result: { task_id: 'theirs', deployments: deployments('ours') },
    },
  )
  const said: Said[] = []
  await until(
    async () => said.push(await status()),
    () => asked() >= 5,
  )
  const ended = await until<Said>(status, (one) => one.status !== 'submitted' && one.status !== 'working')
  t.match(ended, { status: 'completed', result: { deployments: deployments('ours') } })
  t.notMatch(JSON.stringify(said), /of-another/)
})
