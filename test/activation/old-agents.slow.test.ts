import { randomUUID } from 'node:crypto'
import { test } from 'tap'
import { createActivation } from '../../src/activation/activation.js'
import type { Caller } from '../../src/adcp/caller.js'
import { systemClock } from '../../src/net/clock.js'
import { createEgress } from '../../src/net/egress.js'
import { DEFAULT_RETENTION } from '../../src/store/retention.js'
import { createUpstreams } from '../../src/upstreams/upstreams.js'
import { due, embedded, onEveryStorage, type Storage } from '../store/support/storages.js'
import { withTasks } from './support/asked.js'
import { startOldAgent } from './support/old-agent.js'
import { buyer, rosterOf, soon, TRADE_DESK } from './support/parts.js'
import { key, openLive } from './support/world.js'

const SIGNAL = 'sig_AAAAAAAAAAAAAAAAAAAAAA'
const request = (more: object = {}) =>
  ({
    ...{ idempotency_key: key(), signal_agent_segment_id: SIGNAL, destinations: [TRADE_DESK] },
    ...more,
  }) as never

const live = { ...TRADE_DESK, is_live: true, activation_key: { type: 'segment_id', segment_id: 'ttd_77' } }
const fail = (code: string, more: object = {}) => ({ adcp_error: { code, message: 'no' }, ...more })

/** The activation room before one old agent over HTTP, which may take as long as a busy machine does. */
async function rig(
  t: Parameters<typeof openLive>[0],
  storage: Pick<Storage, 'url'>,
  pace: object = {},
  isAway = false,
) {
  const agent = await startOldAgent() // open also where another is called: it keeps the process alive while timers do not
  t.teardown(() => agent.close())
  const called = isAway ? await startOldAgent() : agent
  if (isAway) await called.close()
  const store = await openLive(t, storage.url)
  const egress = createEgress({ policy: { allowHttp: false, allowNetworks: ['127.0.0.0/8'], hosts: {} } })
  const roster = rosterOf([{ id: 'old', url: called.url, protocol: 'mcp' }])
  const upstreams = createUpstreams({
    config: { ...roster, defaults: { ...roster.defaults, ...pace } },
    ...{ send: egress.send, blobs: store.blobs, clock: systemClock, random: Math.random },
    ...{ referencesFor: () => [], onTrouble: () => {} },
  } as never)
  await upstreams.start()
  const agentUrl = upstreams.roster().entries[0]?.agentUrl ?? ''
  const offer = {
    upstream: 'old',
    agentUrl,
    scope: 'public',
    handle: `${SIGNAL}.12345678`,
    segmentId: 'old_1',
  }
  let ahead = 0
  const clock = { ...systemClock, now: () => systemClock.now() + ahead }
  const activation = withTasks(
    createActivation({
      retention: DEFAULT_RETENTION,
      ...{ store, clock, newId: randomUUID, upstreamAt: upstreams.idOf },
      resolve: () =>
        ({
          ...{ handle: SIGNAL, name: 'Coffee drinkers', ref: {} },
          offers: [{ ...offer, options: [], deployments: ['platform:the-trade-desk'] }],
        }) as never,
      hasOwnCredential: () => false,
      call: (agentUrl, task, args, { caller: _, seenAs: __, ...context }) =>
        upstreams.call(agentUrl, task, args, context),
      refreshSoon: () => {},
      onProblem: (problem) => t.comment(problem),
    }),
  )
  t.teardown(async () => {
    await activation.close()
    await upstreams.close()
    await egress.close()
  })
  /** A submitted activation; gives its id, and what came of it when its agent says this of its task. */
  async function submitted(first: object = {}) {
    agent.behave({ answers: 'submitted', acts: true, first })
    const answer = await activation.activate(request(), buyer, soon())
    const task_id = answer.kind === 'answer' ? (answer.fields.task_id as string) : ''
    return async (task: object) => {
      agent.behave({ answers: 'submitted', acts: true, task })
      await due(store)
      await activation.round()
      const said = await activation.taskStatus({ task_id, include_result: true }, buyer, soon())
      const entry = (await store.ledger.query({}, 20)).find((one) => one.taskId === task_id)
      return { said, status: said.kind === 'answer' && said.status, outcome: entry?.outcome }
    }
  }

  const goAhead = (ms: number) => {
    ahead += ms
  }
  return { agent, store, activation, agentUrl, submitted, goAhead }
}

onEveryStorage(
  'an agent that cannot recognise a repetition gets none; its state is read',
  async (t, storage) => {
    const { agent, store, activation } = await rig(t, storage)
    agent.behave({ answers: 'cut', acts: true })
    const wish = request()
    t.match(await activation.activate(wish, buyer, soon()), {
      kind: 'answer',
      fields: { deployments: [{ ...TRADE_DESK, is_live: true }] },
    })
    t.equal(agent.done(), 1)
    t.match(await store.ledger.query({}, 10), [{ outcome: 'completed' }])
    t.match(await activation.activate(wish, buyer, soon()), { kind: 'answer', replayed: true })
    t.equal(agent.done(), 1)
  },
)

test('an agent slower than its timeout is asked once, however often its caller asks', async (t) => {
  const { agent, store, activation } = await rig(t, await embedded(t), { timeoutMs: 3_000 })
  agent.behave({ answers: 'late', acts: false })
  const wish = request()
  const unknown = { error: { code: 'SERVICE_UNAVAILABLE', message: /would take a repetition for a second/ } }
  t.match(await activation.activate(wish, buyer, soon()), unknown)
  agent.behave({ answers: 'yes', acts: true })
  t.match(await activation.activate(wish, buyer, soon()), unknown)
  for (let round = 0; round < 3; round += 1) {
    await due(store)
    await activation.round()
  }
  t.equal(agent.done(), 0, 'nothing was sent again')
  await store.db
    .updateTable('jobs')
    .set({ due: 0, created_at: 0 } as never)
    .execute()
  await store.db
    .updateTable('idempotency')
    .set({ created_at: 0 } as never)
    .execute()
  await activation.round()
  t.match(await store.ledger.query({}, 10), [{ outcome: 'unknown' }])
  t.match(await activation.activate(wish, buyer, soon()), {
    error: {
      code: 'INVALID_REQUEST',
      message: /whether it acted is not known/,
      suggestion: /Ask whoever runs/,
    },
  })
  t.equal(agent.done(), 0)
})

test('of many at an agent that hangs, those that found no place in time were not sent', async (t) => {
  const { agent, store, activation } = await rig(t, await embedded(t), { timeoutMs: 3_000, concurrency: 2 })
  await activation.activate(request(), buyer, soon())
  agent.behave({ answers: 'late', acts: true })
  const wishes = Array.from({ length: 6 }, () => request())
  const said = await Promise.all(wishes.map((wish) => activation.activate(wish, buyer, Date.now() + 3_500)))
  t.equal(agent.done(), 3, 'the first, and two that hang')
  const unsent = said.flatMap((one, at) =>
    one.kind === 'refused' && /Nothing was done/.test(one.error.suggestion ?? '') ? [at] : [],
  )
  t.equal(unsent.length, 4)
  const outcomes = (await store.ledger.query({}, 10)).map(({ outcome }) => outcome)
  t.strictSame(outcomes.sort(), ['completed', 'failed', 'failed', 'failed', 'failed', 'pending', 'pending'])
  agent.behave({ answers: 'yes', acts: true })
  const again = await activation.activate(wishes[unsent[0] as number] as never, buyer, soon())
  t.match(again, { kind: 'answer', fields: { deployments: [{ is_live: true }] } }, 'its key is free')
  t.equal(agent.done(), 4)
})

test('an agent that nobody could connect to was sent nothing', async (t) => {
  const { store, activation } = await rig(t, await embedded(t), {}, true)
  t.match(await activation.activate(request(), buyer, soon()), {
    error: { code: 'SERVICE_UNAVAILABLE', suggestion: /^Nothing was done/ },
  })
  t.match(await store.ledger.query({}, 10), [{ outcome: 'failed' }])
})

test('what an agent cannot be told is refused before it is asked', async (t) => {
  const { agent, activation, agentUrl } = await rig(t, await embedded(t))
  const accounts = new Map([['acc_1', new Map([[agentUrl, { account_id: 'old_77' }]])]])
  const holder: Caller = { ...buyer, accounts }
  const refused = (field: string) => ({
    error: { code: 'INVALID_REQUEST', field, details: { upstream: 'old' } },
  })
  t.match(
    await activation.activate(request({ account: { account_id: 'acc_1' } }), holder, soon()),
    refused('account'),
  )
  t.match(
    await activation.activate(request({ governance_context: 'approved' }), buyer, soon()),
    refused('governance_context'),
  )
  t.equal(agent.done(), 0)
  t.match(await activation.activate(request(), buyer, soon()), { kind: 'answer' })
  t.equal(agent.done(), 1)
})

test('a task that its upstream says has failed, or waits, is told as that', async (t) => {
  const { agent, store, activation } = await rig(t, await embedded(t))
  for (const [status, more] of [
    ['canceled', {}],
    ['rejected', {}],
    ['failed', {}],
    ['failed', { error: { message: 'no code' } }],
    ['input-required', {}],
  ] as const) {
    agent.behave({ answers: 'submitted', acts: true })
    const answer = await activation.activate(request(), buyer, soon())
    if (answer.kind !== 'answer') return t.fail(`${status}: it is submitted`)
    t.equal(answer.status, 'submitted')
    agent.behave({ answers: 'submitted', acts: true, task: { status, ...more } })
    await due(store)
    await activation.round()
    const task_id = answer.fields.task_id as string
    t.match(await activation.taskStatus({ task_id }, buyer, soon()), { kind: 'answer', status }, status)
    const outcome = status === 'input-required' ? 'submitted' : 'failed'
    t.match(await store.ledger.query({}, 1), [{ outcome }], status)
    const asking = (await store.work.backlog()).filter(({ kind }) => kind === 'upstream_task')
    t.equal(asking.length, status === 'input-required' ? 1 : 0)
  }
})

test('an activation that waits for somebody at its upstream goes on, and is not sent again', async (t) => {
  const { agent, store, activation } = await rig(t, await embedded(t))
  for (const first of [
    { status: 'input-required' },
    { status: 'auth-required' },
    { status: 'input_required', adcp_error: { code: 'APPROVAL_NEEDED', message: 'somebody must agree' } },
    { status: 'completed', task: { task_id: 'old_task', status: 'working' } },
  ]) {
    agent.behave({ answers: 'submitted', acts: true, first })
    const before = agent.done()
    const wish = request()
    t.match(await activation.activate(wish, buyer, soon()), { kind: 'answer', status: 'submitted' })
    t.match(await activation.activate(wish, buyer, soon()), { status: 'submitted', replayed: true })
    t.equal(agent.done(), before + 1, JSON.stringify(first))
    t.match(await store.ledger.query({}, 1), [{ outcome: 'submitted' }])
  }
})

test('a task that its upstream does not know came to nobody knows what', async (t) => {
  const { submitted } = await rig(t, await embedded(t))
  for (const task of [
    fail('REFERENCE_NOT_FOUND'),
    fail('TASK_NOT_FOUND'),
    fail('not_found'),
    fail('REFERENCE_NOT_FOUND', {
      status: 'failed',
      adcp_error: { code: 'REFERENCE_NOT_FOUND', field: 'task_id' },
    }),
  ]) {
    const { status, outcome, said } = await (await submitted())(task)
    t.match({ status, outcome }, { status: 'failed', outcome: 'unknown' }, JSON.stringify(task))
    t.match(said, { fields: { error: { code: 'REFERENCE_NOT_FOUND', field: 'task_id' } } })
  }
  const of = fail('REFERENCE_NOT_FOUND', { status: 'failed' })
  t.match(
    await (await submitted())(of),
    { status: 'failed', outcome: 'failed' },
    'the signal is not known there',
  )
})

test('an error that does not say how a task stands ends it only when nothing else is heard for long', async (t) => {
  const { submitted, goAhead } = await rig(t, await embedded(t))
  const broken = fail('INTERNAL_ERROR')
  const first = await submitted()
  t.match(await first(broken), { status: 'submitted', outcome: 'submitted' })
  goAhead(9 * 60_000)
  t.match(await first(broken), { status: 'submitted', outcome: 'submitted' })
  t.match(await first({ status: 'working' }), { status: 'working' })
  goAhead(9 * 60_000)
  t.match(await first(broken), { status: 'working' }, 'it has answered meanwhile')
  t.match(await first({ status: 'completed', deployments: [live] }), {
    ...{ status: 'completed', outcome: 'completed' },
    said: { fields: { result: { deployments: [live] } } },
  })
})

test('a task of which nothing but errors is heard ends, and what came of it is unknown', async (t) => {
  const { submitted, goAhead } = await rig(t, await embedded(t))
  const end = await submitted()
  const broken = fail('INTERNAL_ERROR')
  await end(broken)
  goAhead(11 * 60_000)
  t.match(await end(broken), { status: 'failed', outcome: 'unknown' })
  t.match(await end({ status: 'completed' }), { status: 'failed', outcome: 'unknown' }, 'that stays')
})

test('a task has ended only when its own state says so', async (t) => {
  const { submitted } = await rig(t, await embedded(t))
  const goesOn = await submitted()
  for (const said of [
    {},
    { message: 'starting' },
    { status: 'completed', task: { status: 'working' } },
    { status: 'completed', result: { status: 'submitted' } },
  ]) {
    t.match(await goesOn(said), { outcome: 'submitted' }, JSON.stringify(said))
  }
  for (const said of [
    { status: 'completed', result: { status: 'failed' } },
    { status: 'completed', error: { code: 'TERMS_REJECTED', message: 'no' } },
    { status: 'cancelled', adcp_error: { message: 'no' } },
  ]) {
    t.match(await (await submitted())(said), { outcome: 'failed' }, JSON.stringify(said))
  }
  const done = { status: 'completed', result: { status: 'working', deployments: [live] } }
  t.match(await (await submitted())(done), { status: 'completed', outcome: 'completed' })
})

onEveryStorage(
  'work that goes on without a task of the upstream is seen at its signal',
  async (t, storage) => {
    const { agent, store, activation } = await rig(t, storage)
    const how = { answers: 'submitted without a task', acts: true } as const
    agent.behave({ ...how, live: false })
    const wish = request()
    const answer = await activation.activate(wish, buyer, soon())
    if (answer.kind !== 'answer') return void t.fail('it is submitted')
    t.match(answer, { status: 'submitted', fields: { task_id: /^task_/, deployments: [] } })
    const task = { task_id: answer.fields.task_id as string, include_result: true }
    await due(store)
    await activation.round()
    t.match(await activation.taskStatus(task, buyer, soon()), { status: 'submitted' })
    t.match(await store.ledger.query({}, 1), [{ outcome: 'submitted' }])
    agent.behave({ ...how, live: true })
    await due(store)
    await activation.round()
    const deployments = [{ ...TRADE_DESK, is_live: true }]
    t.match(await activation.taskStatus(task, buyer, soon()), {
      status: 'completed',
      fields: { result: { deployments } },
    })
    t.match(await store.ledger.query({}, 1), [{ outcome: 'completed' }])
    t.match(await activation.activate(wish, buyer, soon()), { status: 'submitted', replayed: true })
    t.equal(agent.done(), 1)
  },
)

const part = { kind: 'data', data: { deployments: [live] } }

test('the result of a task is read with its key, whatever shape it has', async (t) => {
  const { agent, store, activation } = await rig(t, await embedded(t))
  for (const [shape, task] of Object.entries({
    flat: { status: 'completed', deployments: [live] },
    'in result': { status: 'completed', result: { deployments: [live] } },
    'nested twice': { task: { status: 'completed', result: { data: { deployments: [live] } } } },
    'in artifacts': { status: 'completed', artifacts: [{ parts: [{ kind: 'text', text: 'done' }, part] }] },
    'in the artifacts of a result': { status: 'completed', result: { artifacts: [{ parts: [part] }] } },
    'as A2A has it': { status: { state: 'TASK_STATE_COMPLETED' }, artifacts: [{ parts: [part] }] },
    'without the kind of target': {
      status: 'completed',
      deployments: [{ platform: 'the-trade-desk', is_live: true, decisioning_platform_segment_id: 'ttd_77' }],
    },
    'as a key alone': { status: 'deployed', decisioning_platform_segment_id: 'ttd_77' },
  })) {
    agent.behave({ answers: 'submitted', acts: true, task })
    const answer = await activation.activate(request(), buyer, soon())
    if (answer.kind !== 'answer') return t.fail('it is submitted')
    const polled = { task_id: answer.fields.task_id as string, include_result: true }
    await due(store)
    await activation.round()
    const told = { status: 'completed', fields: { result: { deployments: [live] } } }
    t.match(await activation.taskStatus(polled, buyer, soon()), told, shape)
    t.match(
      await store.ledger.query({}, 1),
      [{ outcome: 'completed', deployments: [{ is_live: true }] }],
      shape,
    )
  }
})

test('of what a task does not tell nothing is invented', async (t) => {
  const { agent, store, activation } = await rig(t, await embedded(t))
  for (const task of [
    { status: 'completed' },
    { status: 'completed', result: {} },
    { status: 'completed', result: { deployments: [] } },
    { status: 'completed', deployments: [TRADE_DESK] },
  ]) {
    agent.behave({ answers: 'submitted', acts: true, task })
    const answer = await activation.activate(request(), buyer, soon())
    if (answer.kind !== 'answer') return t.fail('it is submitted')
    const polled = { task_id: answer.fields.task_id as string, include_result: true }
    await due(store)
    await activation.round()
    const status = await activation.taskStatus(polled, buyer, soon())
    t.match(status, { status: 'completed' })
    const { result } = status.kind === 'answer' ? status.fields : {}
    t.same(result, { deployments: [], ext: { tributary: { unknown: [TRADE_DESK] } } }, JSON.stringify(task))
    t.same((await store.ledger.query({}, 1))[0]?.deployments, [])
  }
})
