/** The id of an upstream comes to stand for another agent while a question is under way. */

import { hash } from 'node:crypto'
import { type Test, test } from 'tap'
import { activationOf, BUYER, type Said, startOver, TRADE_DESK } from '../support/federation-over.js'
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

/** An agent without a feed: only questions find its row. */
async function briefOnly(t: Test, at: number) {
  const sent: Sent[] = []
  const { url, close } = await startMcpAgent(
    (task, args) => {
      sent.push({ task, args, auth: undefined })
      if (task === 'get_adcp_capabilities')
        return { ...CAPABILITIES, signals: { discovery_modes: ['brief'] } }
      if (task === 'activate_signal') {
        return { status: 'completed', deployments: [{ ...TRADE_DESK, is_live: true }] }
      }
      if (args.discovery_mode === 'wholesale')
        return { adcp_error: { code: 'UNSUPPORTED_FEATURE', message: 'no' } }
      const rows = args.signal_spec === QUESTION.signal_spec ? [row(at)] : []
      return { status: 'completed', signals: rows, pagination: { has_more: false } }
    },
    {},
    [...TOOLS, { name: 'activate_signal', inputSchema: { type: 'object' } }],
  )
  t.teardown(close)
  return { url, sent }
}

/** One who only answers questions, under the id `x`, beside an agent with a feed. */
async function asked(t: Test) {
  const [first, second] = [await briefOnly(t, 1), await briefOnly(t, 2)]
  const feed = await agent(t, 9, () => ({ status: 'completed', signals: [] }))
  const named = (id: string, { url }: { url: string }) => [
    { id, url, protocol: 'mcp' },
    { id: 'feed', url: feed.url, protocol: 'mcp' },
  ]
  const defaults = { seeds_from_briefs: false }
  const over = await startOver(t, named('x', first), { defaults })
  const question = () => over.call('get_signals', QUESTION)
  const nameOf = ({ signals }: Said) => signals.map(({ name }: Said) => name)
  const found = (await question()).signals.find(({ name }: Said) => name === 'Signal 1')
  t.ok(found, 'the question finds it')
  return {
    ...{ over, first, second, question, found, nameOf },
    rename: (id: string, to: { url: string }) => over.reload({ upstreams: named(id, to) }),
    lookup: () => over.call('get_signals', { signal_refs: [found.signal_ref] }),
    activate: () => over.call('activate_signal', activationOf(found)),
  }
}

const offersOf = ({ signals }: Said): [string, string][] =>
  signals.flatMap(({ name, ext }: Said) => ext.tributary.offers.map((offer: Said) => [name, offer.upstream]))

test('an answer that is kept for a minute is of the agent that gave it, not of who has its id', async (t) => {
  const { rename, question, second } = await asked(t)
  rename('x', second)
  const isAsked = (said: Said) => offersOf(said).some(([name]) => name === 'Signal 2')
  const answer = await until(question, isAsked, 30_000) // half as long as answers are kept
  t.same(
    offersOf(answer).filter(([, upstream]) => upstream === 'x'),
    [['Signal 2', 'x']],
  )
})

test('what a question found is not shown when its agent has left, whoever has its id then', async (t) => {
  const { rename, lookup, activate, first, second, nameOf } = await asked(t)
  t.same(nameOf(await lookup()), ['Signal 1'])
  rename('x', second)
  t.same(nameOf(await lookup()), [])
  t.match(await activate(), { adcp_error: { code: 'REFERENCE_NOT_FOUND' } })
  t.notOk(first.sent.some(({ task }) => task === 'activate_signal'))
})

test('what a question found stays when its agent is given another id', async (t) => {
  const { rename, question, lookup, activate, first } = await asked(t)
  rename('renamed', first)
  t.same(offersOf(await lookup()), [['Signal 1', 'renamed']])
  t.same(
    offersOf(await question()).filter(([name]) => name === 'Signal 1'),
    [['Signal 1', 'renamed']],
  )
  t.match(await activate(), { deployments: [{ is_live: true }] })
  t.ok(first.sent.some(({ task }) => task === 'activate_signal'))
})
