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
  const activation = withTasks(
    createActivation({
      retention: DEFAULT_RETENTION,
      ...{ store, clock: systemClock, newId: randomUUID, upstreamAt: upstreams.idOf },
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
  return { agent, store, activation, agentUrl }
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

const live = { ...TRADE_DESK, is_live: true, activation_key: { type: 'segment_id', segment_id: 'ttd_77' } }
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
