import { test } from 'tap'
import { unwantedNow } from '../../src/activation/holders.js'
import type { Destination } from '../../src/adcp/signal.js'
import type { Call } from '../../src/store/call.js'
import type { NewEntry, Settlement } from '../../src/store/records/ledger.js'
import type { Store } from '../../src/store/store.js'
import { NO_ROWS } from '../../src/upstreams/rows/read-rows.js'
import { due, embedded, onEveryStorage } from '../store/support/storages.js'
import { other, stranger, TRADE_DESK } from './support/parts.js'
import { asks, first, openLive, startWorld, type WorldOptions } from './support/world.js'

type Test = Parameters<Parameters<typeof onEveryStorage>[1]>[0]
type Say = 'made' | 'cut' | 'refused'

/** What activations are answered with; deactivations and questions reach the agent, unless it `isDown`. */
function scripted() {
  const script = { says: 'made' as Say, isDown: false }
  const call: NonNullable<WorldOptions['call']> = (make) => async (agentUrl, task, args, context) => {
    if (script.isDown && args.action === 'deactivate') {
      return { kind: 'failed', reason: 'backing_off', message: 'down', retryAfterMs: 1_000 }
    }
    const isActivation = task === 'activate_signal' && args.action !== 'deactivate'
    if (isActivation && script.says === 'cut')
      return { kind: 'failed', reason: 'unreachable', message: 'cut' }
    if (isActivation && script.says === 'refused') {
      return { kind: 'error', error: { code: 'PERMISSION_DENIED', message: 'no' } }
    }
    return await make(agentUrl, task, args, context)
  }
  return { script, call }
}

const LIVE = { kind: 'answer', fields: { deployments: [{ ...TRADE_DESK, is_live: true }] } }
const CUT = { error: { code: 'SERVICE_UNAVAILABLE' } }

/** A caller has the signal on, and what another one asked for is under way. */
async function leftOn(t: Test, url: string) {
  const { script, call } = scripted()
  const world = await startWorld(t, { agents: ['northwind'], store: await openLive(t, url), call })
  const { northwind } = world.sandbox.agents
  const choice = first(world.choices('northwind'))
  const off = { action: 'deactivate', signal_agent_segment_id: choice.signal, destinations: [TRADE_DESK] }
  await world.activate(asks(choice))
  script.says = 'cut'
  t.match(await world.activate(asks(choice), other), CUT)
  return { script, world, northwind, choice, off }
}

onEveryStorage('what two callers` failed wishes left on is switched off once', async (t, storage) => {
  const { script, world, northwind, choice, off } = await leftOn(t, storage.url)
  t.match(await world.activate(asks(choice), stranger), CUT)
  t.match(await world.activate(off), LIVE, 'others may have it on')
  script.says = 'refused'
  for (let round = 0; round < 4; round += 1) {
    await due(world.store)
    await world.activation.round()
  }
  t.equal(northwind.deactivations(), 1)
  const entries = await world.store.ledger.query({ action: 'deactivate' }, 10)
  t.same(
    entries.map(({ outcome }) => outcome),
    ['completed', 'completed'],
  )
})

onEveryStorage('what is switched off by itself waits for an agent that is down', async (t, storage) => {
  const { script, world, northwind, off } = await leftOn(t, storage.url)
  t.match(await world.activate(off), LIVE, 'the other may have it on')
  Object.assign(script, { says: 'refused', isDown: true })
  for (let round = 0; round < 3; round += 1) {
    await due(world.store)
    await world.activation.round()
  }
  t.match(await world.store.ledger.query({ action: 'deactivate' }, 1), [{ outcome: 'pending' }])
  script.isDown = false
  await due(world.store)
  await world.activation.round()
  t.match(await world.store.ledger.query({ action: 'deactivate' }, 1), [{ outcome: 'completed' }])
  t.equal(northwind.deactivations(), 1)
})

onEveryStorage(
  'what is switched off by itself comes before whatever is asked for meanwhile',
  async (t, storage) => {
    const { script, call } = scripted()
    const real = await openLive(t, storage.url)
    let whileDeciding: (() => Promise<void>) | undefined
    const store: Store = {
      ...real,
      ledger: {
        ...real.ledger,
        async ofSegment(...args) {
          const entries = await real.ledger.ofSegment(...args)
          const meanwhile = whileDeciding
          whileDeciding = undefined
          await meanwhile?.()
          return entries
        },
      },
    }
    const world = await startWorld(t, { agents: ['northwind'], store, call })
    const { northwind } = world.sandbox.agents
    const choice = first(world.choices('northwind'))
    const off = { action: 'deactivate', signal_agent_segment_id: choice.signal, destinations: [TRADE_DESK] }
    await world.activate(asks(choice))
    script.says = 'cut'
    t.match(await world.activate(asks(choice), other), CUT)
    t.match(await world.activate(off), LIVE, 'the other may have it on')
    script.says = 'refused'
    await due(store)
    await world.activation.round()
    script.says = 'made'

    let wish: Promise<unknown> | undefined
    whileDeciding = async () => {
      wish = world.activate(asks(choice))
      while ((await store.ledger.query({ outcome: 'pending', action: 'activate' }, 1)).length === 0);
    }
    for (let round = 0; round < 3; round += 1) {
      await due(store)
      await world.activation.round()
    }
    t.match(await wish, LIVE, 'the wish is not taken for an earlier one')
    t.equal(northwind.deactivations(), 0, 'what it was to switch off is wanted again')
    const [newest] = await store.ledger.query({ action: 'activate', outcome: 'completed' }, 1)
    const [switchedOff] = await store.ledger.query({ action: 'deactivate' }, 1)
    t.ok(newest && switchedOff && newest.seq > switchedOff.seq)
  },
)

onEveryStorage(
  'what is left on for one seat of a platform, or for all of it, is switched off when that ends',
  async (t, storage) => {
    const world = await startWorld(t, { agents: ['northwind'], store: await openLive(t, storage.url) })
    const { northwind } = world.sandbox.agents
    const seat = { ...TRADE_DESK, account: 'seat-1' }
    const choices = world.choices('northwind').slice(0, 2)
    for (const [at, choice] of choices.entries()) {
      const [mine, theirs] = at === 0 ? [TRADE_DESK, seat] : [seat, TRADE_DESK]
      const off = { action: 'deactivate', signal_agent_segment_id: choice.signal }
      await world.activate(asks(choice, { destinations: [mine] }))
      await world.activate(asks(choice, { destinations: [theirs] }), other)
      t.match(await world.activate({ ...off, destinations: [mine] }), {
        fields: { deployments: [{ ...mine, is_live: true }] },
      })
      t.match(await world.activate({ ...off, destinations: [theirs] }, other), { kind: 'answer' })
      await due(world.store)
      await world.activation.round()
      const [newest] = await world.store.ledger.query({ handle: choice.signal, action: 'deactivate' }, 1)
      t.match(newest, { caller: 'buyer', outcome: 'completed' })
      t.same(newest?.destinations, [mine])
      t.equal(northwind.deactivations(), 2 * (at + 1))
    }
  },
)

onEveryStorage(
  'what a task switches on after it was switched off is switched off again',
  async (t, storage) => {
    const task = { task_id: 'theirs', status: 'working' as 'working' | 'completed' }
    const result = { deployments: [{ ...TRADE_DESK, is_live: true }] }
    const call: NonNullable<WorldOptions['call']> = (make) => async (agentUrl, name, args, context) => {
      if (name === 'get_task_status') return { kind: 'answer', payload: { ...task, result }, rows: NO_ROWS }
      if (name === 'activate_signal' && args.action !== 'deactivate')
        return { kind: 'answer', payload: { task_id: 'theirs', status: 'submitted' }, rows: NO_ROWS }
      return await make(agentUrl, name, args, context)
    }
    const world = await startWorld(t, { agents: ['northwind'], store: await openLive(t, storage.url), call })
    const { northwind } = world.sandbox.agents
    const choice = first(world.choices('northwind'))
    const off = { action: 'deactivate', signal_agent_segment_id: choice.signal, destinations: [TRADE_DESK] }
    t.match(await world.activate(asks(choice)), { fields: { task_id: /^task_/ } })
    t.match(await world.activate(off), { fields: { deployments: [{ is_live: false }] } })
    task.status = 'completed'
    for (let round = 0; round < 3; round += 1) {
      await due(world.store)
      await world.activation.round()
    }
    t.equal(northwind.deactivations(), 2)
    const entries = await world.store.ledger.query({}, 10)
    t.same(entries.map(({ action, outcome }) => `${action} ${outcome}`).sort(), [
      'activate completed',
      'deactivate completed',
      'deactivate completed',
    ])
  },
)

test('what is switched off by itself is what the newest wish left on', async (t) => {
  const { ledger } = await (await embedded(t)).open()
  const DV360: Destination = { type: 'platform', platform: 'dv360' }
  const live = (...destinations: Destination[]) => destinations.map((one) => ({ ...one, is_live: true }))
  const left: Settlement = { outcome: 'completed', deployments: live(TRADE_DESK) }
  let segments = 0

  /** The destinations of each wish, after these of one caller, the oldest first. */
  async function wishes(...entries: [NewEntry['action'], Destination[], Settlement][]): Promise<unknown[]> {
    const segment = `segment ${segments++}`
    const agentUrl = 'https://far.example/mcp'
    const settlements = entries.map(([, , settlement], at) => [`${segment} ${at}`, settlement] as const)
    const handles = { handle: 's', signalHandle: 's', offerHandle: 's.o', upstream: 'far' }
    await ledger.recordAll(
      entries.map(([action, destinations], at) => ({
        ...{ id: `${segment} ${at}`, caller: 'buyer', seenAs: 'shared', seq: at + 1 },
        ...{ ...handles, agentUrl, segmentId: segment, action, destinations },
      })),
    )
    await ledger.settleAll(new Map(settlements))
    const call = { id: 'ended', caller: 'other', seenAs: 'shared', agentUrl, segment, args: {} }
    const decided = await unwantedNow({ ledger }, call as unknown as Call)
    return decided.entries.map(({ destinations }) => destinations)
  }

  const off = 'deactivate'
  t.same(await wishes([off, [TRADE_DESK], left]), [[TRADE_DESK]])
  const half: Settlement = { ...left, deployments: [...live(TRADE_DESK), { ...DV360, is_live: false }] }
  t.same(await wishes([off, [TRADE_DESK, DV360], half]), [[TRADE_DESK]], 'the other is off')
  t.same(await wishes([off, [TRADE_DESK], left], [off, [TRADE_DESK], left]), [[TRADE_DESK]], 'once')
  const on: Settlement = { outcome: 'completed', deployments: live(TRADE_DESK) }
  t.same(await wishes([off, [TRADE_DESK], left], ['activate', [TRADE_DESK], on]), [], 'it is wanted again')
  const working: Settlement = { ...left, outcome: 'submitted' }
  t.same(await wishes([off, [TRADE_DESK], left], [off, [TRADE_DESK], working]), [], 'it is being done')

  const byItself = { id: 'segment 0 0', caller: 'buyer', key: '', seenAs: 'shared', args: { action: off } }
  const asked = { ...byItself, agentUrl: 'https://far.example/mcp', segment: 'segment 0' }
  const { entries: again } = await unwantedNow({ ledger }, asked as unknown as Call)
  t.same(again, [], 'an agent that goes on saying that it is live is not asked without end')
})
