/** The id of an upstream comes to stand for another agent while a question is under way. */

import { hash } from 'node:crypto'
import { type Test, test } from 'tap'
import { BUYER, type Said, startOver } from '../support/federation-over.js'
import { until } from '../support/until.js'
import { startMcpAgent, type ToolList } from '../support/upstream-agent.js'
import { CAPABILITIES } from '../support/upstream-feed.js'
import { row } from '../support/upstream-world.js'

const TOOLS: ToolList = ['get_signals', 'get_task_status'].map((name) => ({
  ...{ name, inputSchema: { type: 'object' } },
}))
const SECRET = 'of-the-buyer-for-one-agent'
const QUESTION = { discovery_mode: 'brief', signal_spec: 'shoppers who compared models' }

type Sent = { task: string; args: Said; auth: string | undefined }

/** An agent with a feed of one row, which answers questions and questions about its tasks as told. */
async function agent(t: Test, at: number, said: (task: string) => Said | Promise<Said>) {
  const sent: Sent[] = []
  let auth: string | undefined
  const running = await startMcpAgent(
    (task, args) => {
      sent.push({ task, args, auth })
      if (task === 'get_adcp_capabilities') return CAPABILITIES
      if (args.discovery_mode !== 'wholesale') return said(task)
      const tokens = { wholesale_feed_version: 'v', cache_scope: 'public' }
      return { status: 'completed', ...tokens, signals: [row(at)], pagination: { has_more: false } }
    },
    {},
    TOOLS,
  )
  running.server.prependListener('request', ({ headers }) => {
    auth = headers.authorization
  })
  t.teardown(running.close)
  return { url: running.url, sent }
}

/** A Tributary whose upstream `x` is the first agent, and becomes the second one. The buyer has an account at the first. */
async function world(t: Test, { first, second }: Record<'first' | 'second', { url: string }>) {
  const third = await agent(t, 9, () => ({ status: 'completed', signals: [] }))
  const over = await startOver(
    t,
    [
      { id: 'x', url: first.url, protocol: 'mcp' },
      { id: 'other', url: third.url, protocol: 'mcp' },
    ],
    {
      callers: {
        keys: [
          {
            ...{ id: 'buyer', token_sha256: hash('sha256', BUYER, 'hex') },
            credentials: { [first.url]: { type: 'bearer', token: SECRET } },
            accounts: { acc: { [first.url]: { account_id: 'nw_77' } } },
          },
        ],
      },
    },
  )
  const move = () =>
    over.reload({
      upstreams: [
        { id: 'x', url: second.url, protocol: 'mcp' },
        { id: 'other', url: third.url, protocol: 'mcp' },
      ],
    })
  return { over, move, third }
}

/** What the agent was sent that was meant for the first one. */
const strayed = ({ sent }: { sent: readonly Sent[] }) =>
  sent.filter(({ task, args, auth }) => auth !== undefined || args.account || task === 'get_task_status')

test('an upstream that works on a question is asked about it at its own url only', async (t) => {
  const first = await agent(t, 1, (task) =>
    task === 'get_task_status'
      ? { status: 'working', task_id: 'theirs' }
      : { status: 'submitted', task_id: 'theirs' },
  )
  const second = await agent(t, 2, () => ({
    ...{ task_id: 'theirs', status: 'completed' },
    result: { signals: [row(3)] },
  }))
  const { over, move } = await world(t, { first, second })
  const { task_id } = await over.call('get_signals', {
    ...{ ...QUESTION, signal_spec: 'nothing that is mirrored', account: { account_id: 'acc' } },
    time_budget: { interval: 1, unit: 'seconds' },
  })
  t.ok(task_id)
  await until(
    () => first.sent.filter(({ task }) => task === 'get_task_status'),
    ({ length }) => length > 0,
  )
  t.match(first.sent.at(-1), { task: 'get_task_status', auth: `Bearer ${SECRET}` })
  move()
  const status = () => over.call('get_task_status', { task_id, include_result: true })
  const ended = await until<Said>(status, (said) => said.status !== 'submitted' && said.status !== 'working')
  t.same(strayed(second), [])
  t.equal(ended.status, 'completed')
  t.notMatch(JSON.stringify(ended.result), /segment_3|Signal 3/)
})

test('questions that wait for a turn go to the agent that they were meant for, or to nobody', async (t) => {
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const first = await agent(t, 1, async () => {
    await held
    return { status: 'completed', signals: [row(1)], pagination: { has_more: false } }
  })
  const second = await agent(t, 2, () => ({ status: 'completed', signals: [row(3)] }))
  const { over, move, third } = await world(t, { first, second })
  const asks = Array.from({ length: 12 }, (_, at) =>
    over.call('get_signals', {
      ...{ ...QUESTION, signal_spec: `${QUESTION.signal_spec} ${at}`, account: { account_id: 'acc' } },
      time_budget: { interval: 60, unit: 'seconds' },
    }),
  )
  const questionsAt = ({ sent }: typeof first) => sent.filter(({ args }) => args.signal_spec).length
  await until(
    () => questionsAt(third) === asks.length && questionsAt(first) > 0,
    (areAsked) => areAsked,
  )
  t.ok(questionsAt(first) < asks.length, 'some wait for a turn at it')
  move()
  release()
  const answers = await Promise.all(asks)
  t.same(strayed(second), [])
  t.notMatch(JSON.stringify(answers), /Signal 3/)
})
