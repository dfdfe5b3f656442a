/** What is kept of calls, and what a caller's key means after its first use: when clocks differ, and when much time has passed. */
import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import { type ActivationOptions, createActivation } from '../../src/activation/activation.js'
import { endedAmong } from '../../src/activation/holders.js'
import { systemClock } from '../../src/net/clock.js'
import { createForgetting, DEFAULT_RETENTION } from '../../src/store/retention.js'
import type { Store } from '../../src/store/store.js'
import type { AgentOutcome } from '../../src/upstreams/agent/agent.js'
import { NO_ROWS } from '../../src/upstreams/rows/read-rows.js'
import { due, onEveryStorage, type Storage } from '../store/support/storages.js'
import { withTasks } from './support/asked.js'
import { buyer, other, TRADE_DESK } from './support/parts.js'
import { key } from './support/world.js'

const HOUR = 3_600_000
const SIGNAL = `sig_${'A'.repeat(22)}`
const OFFER = {
  ...{ upstream: 'far', agentUrl: 'https://far.example/mcp', scope: 'public', handle: `${SIGNAL}.12345678` },
  ...{ segmentId: 'seg', options: [], deployments: ['platform:the-trade-desk'], live: [], anywhere: false },
}
const KEPT = { ...DEFAULT_RETENTION, answersMs: HOUR, callsMs: HOUR }

const said = (payload: Record<string, unknown>): AgentOutcome => ({ kind: 'answer', payload, rows: NO_ROWS })
const REFUSED: AgentOutcome = { kind: 'error', error: { code: 'PERMISSION_DENIED', message: 'no' } }
const CUT: AgentOutcome = { kind: 'failed', reason: 'unreachable', message: 'cut' }
const UNSENT: AgentOutcome = { kind: 'failed', reason: 'unreachable', message: 'no way', unsent: true }

type Say = 'does' | 'refuses' | 'is cut' | 'is away' | 'works on it'

/** One agent, as its books show it; it recognises repetitions of activations. */
function startAgent() {
  const agent = {
    says: 'does' as Say,
    isLive: false,
    taskStatus: 'working',
    /** The keys under which it acted, and what it counted. */
    acted: [] as unknown[],
    counted: 0,
    /** Whether each call was to go with a credential, and never without. */
    credentialed: [] as boolean[],
  }
  const answers = new Map<unknown, AgentOutcome>()
  function act(task: string, args: Readonly<Record<string, unknown>>): AgentOutcome {
    agent.acted.push(args.idempotency_key)
    if (task === 'report_usage') {
      const { length } = args.usage as unknown[]
      agent.counted += length
      return said({ accepted: length })
    }
    if (agent.says === 'works on it')
      return said({ status: 'submitted', task_id: `theirs_${agent.acted.length}` })
    agent.isLive = args.action !== 'deactivate'
    return said({ deployments: [{ ...TRADE_DESK, is_live: agent.isLive }] })
  }
  const call: ActivationOptions['call'] = async (_agentUrl, task, args, { isCredentialed = false }) => {
    agent.credentialed.push(isCredentialed)
    if (agent.says === 'is away') return UNSENT
    if (task === 'get_task_status') return said({ task_id: args.task_id, status: agent.taskStatus })
    if (task === 'get_signals') return said({ signals: [] })
    if (agent.says === 'refuses') return REFUSED
    const known = args.idempotency_key
    const answer = (task === 'activate_signal' && answers.get(known)) || act(task, args)
    answers.set(known, answer)
    return agent.says === 'is cut' ? CUT : answer
  }
  return { agent, call }
}

/** One process on the storage, whose clock differs from the storage's by so much. */
async function open(
  t: Test,
  storage: Storage,
  call: ActivationOptions['call'],
  { aheadMs = 0, hasSharedCredential = (): boolean => false } = {},
) {
  const now = () => storage.clock.now + aheadMs
  const store = await storage.open({ now, answersMs: HOUR })
  const activation = withTasks(
    createActivation({
      ...{
        store,
        call,
        hasSharedCredential,
        retention: KEPT,
        clock: { ...systemClock, now },
        newId: randomUUID,
      },
      resolve: () => ({
        ...{ handle: SIGNAL, name: 'a signal', offers: [OFFER] },
        ref: { scope: 'data_provider', data_provider_domain: 'h.example', signal_id: 'a' },
      }),
      ...{ upstreamAt: () => 'far', hasOwnCredential: () => false, refreshSoon: () => {} },
      onProblem: (problem) => t.comment(problem),
    } as ActivationOptions),
  )
  t.teardown(() => activation.close())
  const asks = (more: object = {}) =>
    ({
      idempotency_key: key(),
      signal_agent_segment_id: SIGNAL,
      destinations: [TRADE_DESK],
      ...more,
    }) as const
  return {
    ...{ store, asks },
    activate: (request: ReturnType<typeof asks>, as = buyer) =>
      activation.activate(request as never, as, now() + 60_000),
    status: (task_id: string, as = buyer) => activation.taskStatus({ task_id } as never, as, now() + 60_000),
    report: (request: object) => activation.reportUsage(request as never, buyer, now() + 60_000),
    /** Does in the background what is open. */
    async goesOn() {
      await due(store)
      await activation.round()
    },
    forgets: () => createForgetting(store, KEPT, endedAmong)(now()),
  }
}

const outcomes = async ({ ledger }: Store) => (await ledger.query({}, 10)).map(({ outcome }) => outcome)

onEveryStorage(
  'a repetition hears of the calls of its own use of the key, whatever clocks say',
  async (t, storage) => {
    const { agent, call } = startAgent()
    const ahead = await open(t, storage, call, { aheadMs: 800 })
    const behind = storage.isShared ? await open(t, storage, call) : ahead
    const request = ahead.asks()
    agent.says = 'refuses'
    t.match(await ahead.activate(request), { error: { code: 'PERMISSION_DENIED' } })
    if (!storage.isShared) storage.clock.now -= 800 // one process, whose clock is set back
    agent.says = 'is cut'
    t.match(await behind.activate(request), { error: { code: 'SERVICE_UNAVAILABLE' } })
    t.match(
      await behind.activate(request),
      { error: { code: 'SERVICE_UNAVAILABLE' } },
      'the first use was refused',
    )
    t.same([agent.isLive, (await outcomes(behind.store)).sort()], [true, ['failed', 'pending']])
    agent.says = 'does'
    t.match(await ahead.activate(request), { kind: 'answer', fields: { deployments: [{ is_live: true }] } })
    t.equal(agent.acted.length, 1)
  },
)

onEveryStorage(
  'usage that is sent late is counted once, however late its report is repeated',
  async (t, storage) => {
    const { agent, call } = startAgent()
    const { store, report, goesOn, forgets } = await open(t, storage, call)
    const request = {
      idempotency_key: key(),
      reporting_period: { start: '2026-01-01T00:00:00Z', end: '2026-01-02T00:00:00Z' },
      usage: [
        {
          account: { brand: { domain: 'a.example' }, operator: 'a.example' },
          ...{ signal_agent_segment_id: SIGNAL, impressions: 1_000, vendor_cost: 5, currency: 'USD' },
        },
      ],
    }
    const rows = (accepted: number, pending: number) => ({
      fields: { ext: { tributary: { rows: { accepted, pending } } } },
    })
    agent.says = 'is away'
    t.match(await report(request), rows(0, 1))
    storage.clock.now += 2 * HOUR
    await forgets()
    agent.says = 'does'
    await goesOn()
    t.equal(agent.counted, 1)
    storage.clock.now += HOUR - 1
    await forgets()
    t.match(await report(request), rows(1, 0))
    t.equal(agent.counted, 1)
    const { caller, key: used } = { caller: buyer.id, key: request.idempotency_key }
    const bound = () =>
      store.db.selectFrom('idempotency').select('key').where('caller', '=', caller).execute()
    t.same(await bound(), [{ key: used }])
    storage.clock.now += HOUR
    await forgets()
    t.same(await bound(), [], 'the answer is kept from the outcome on, and no longer')
  },
)

onEveryStorage(
  'what a key did goes on under the key, and is one request to the agent',
  async (t, storage) => {
    const { agent, call } = startAgent()
    const { asks, activate, status, goesOn, forgets } = await open(t, storage, call)
    const request = asks()
    agent.says = 'works on it'
    const first = await activate(request)
    t.match(first, { status: 'submitted' })
    storage.clock.now += 2 * HOUR
    await forgets()
    t.match(await activate(request), { ...first, replayed: true }, 'its task is not done yet')
    t.equal(agent.acted.length, 1)
    agent.taskStatus = 'completed'
    await goesOn()
    const { task_id } = (first as unknown as { fields: { task_id: string } }).fields
    t.match(await status(task_id), { status: 'completed' })
    storage.clock.now += HOUR - 1
    await forgets()
    t.match(await activate(request), { replayed: true })
  },
)

onEveryStorage('a call is repeated under the key that is stored with it', async (t, storage) => {
  const { agent, call } = startAgent()
  const { store, asks, activate } = await open(t, storage, call)
  const request = asks()
  agent.says = 'is cut'
  t.match(await activate(request), { error: { code: 'SERVICE_UNAVAILABLE' } })
  const [job] = await store.db.selectFrom('jobs').select(['id', 'data']).execute()
  const data = { ...JSON.parse(job?.data ?? ''), upstreamKey: 'of-the-release-before' }
  await store.db
    .updateTable('jobs')
    .set({ data: JSON.stringify(data) })
    .execute()
  agent.says = 'does'
  t.match(await activate(request), { kind: 'answer' })
  t.match(agent.acted, [/^trb_/, 'of-the-release-before'])
})

onEveryStorage(
  'a key that is used again after its time is another request to the agent',
  async (t, storage) => {
    const { agent, call } = startAgent()
    const { store, asks, activate, forgets } = await open(t, storage, call)
    const request = asks()
    t.match(await activate(request), { kind: 'answer' })
    t.match(await activate(asks({ action: 'deactivate' })), { kind: 'answer' })
    t.equal(agent.isLive, false)
    storage.clock.now += HOUR
    if (storage.isShared) await forgets() // by a round, or by the next use of the key
    agent.says = 'is cut'
    t.match(await activate(request), { error: { code: 'SERVICE_UNAVAILABLE' } })
    agent.says = 'does'
    t.match(await activate(request), { fields: { deployments: [{ is_live: true }] } })
    t.equal(agent.isLive, true, 'what is told as live is live')
    t.equal(agent.acted.length, 3, 'repetitions of one use have one key')
    t.equal(new Set(agent.acted).size, 3)
    t.same(await outcomes(store), ['completed', 'completed', 'completed'])
  },
)

onEveryStorage('a task that ends late switches off what was left on for it', async (t, storage) => {
  const { agent, call } = startAgent()
  const { store, asks, activate, status, goesOn, forgets } = await open(t, storage, call)
  t.match(await activate(asks()), { kind: 'answer' })
  agent.says = 'works on it'
  const { fields } = (await activate(asks(), other)) as unknown as { fields: { task_id: string } }
  agent.says = 'does'
  t.match(await activate(asks({ action: 'deactivate' })), { fields: { deployments: [{ is_live: true }] } })
  storage.clock.now += 2 * HOUR
  await forgets()
  agent.taskStatus = 'failed'
  await goesOn() // hears of it
  await goesOn() // switches it off
  t.match(await status(fields.task_id, other), { status: 'failed' })
  t.equal(agent.isLive, false)
  storage.clock.now += 2 * HOUR
  await forgets()
  t.same(await store.db.selectFrom('jobs').select('id').execute(), [], 'nothing rests on the calls any more')
})

onEveryStorage('a call is not repeated when what reversed it is long ago', async (t, storage) => {
  const { agent, call } = startAgent()
  const { store, asks, activate, goesOn, forgets } = await open(t, storage, call)
  agent.says = 'is cut'
  t.match(await activate(asks()), { error: { code: 'SERVICE_UNAVAILABLE' } })
  agent.says = 'does'
  t.match(await activate(asks({ action: 'deactivate' })), { kind: 'answer' })
  storage.clock.now += 2 * HOUR // nothing was done meanwhile: the process had ended
  await forgets()
  await goesOn()
  t.same((await outcomes(store)).sort(), ['completed', 'superseded'])
})

onEveryStorage(
  'a deactivation goes with a credential where the activation did, however old that is',
  async (t, storage) => {
    const { agent, call } = startAgent()
    let isThere = true
    const { asks, activate, forgets, store } = await open(t, storage, call, {
      hasSharedCredential: () => isThere,
    })
    t.match(await activate(asks()), { kind: 'answer' })
    isThere = false
    storage.clock.now += 2 * HOUR
    await forgets()
    t.same(await store.db.selectFrom('jobs').select('id').execute(), [])
    t.match(await activate(asks({ action: 'deactivate' })), { kind: 'answer' })
    t.match(await activate(asks({ action: 'deactivate' })), { kind: 'answer' })
    t.same(agent.credentialed, [true, true, true])
  },
)
