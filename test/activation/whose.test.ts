import { test } from 'tap'
import { type Holder, standingFor, visibleDeployments } from '../../src/activation/holders.js'
import type { Caller } from '../../src/adcp/caller.js'
import type { Entry } from '../../src/store/records/ledger.js'
import { due, onEveryStorage } from '../store/support/storages.js'
import { buyer, other, soon, stranger, TRADE_DESK } from './support/parts.js'
import { asks, first, key, openLive, startWorld, urlsOf, type WorldOptions } from './support/world.js'

const GONE = { error: { code: 'REFERENCE_NOT_FOUND' } }

onEveryStorage('at a shared credential nobody switches off what others have on', async (t, storage) => {
  const world = await startWorld(t, { agents: ['northwind'], store: await openLive(t, storage.url) })
  const { northwind } = world.sandbox.agents
  const choice = first(world.choices('northwind'))
  const off = { action: 'deactivate', signal_agent_segment_id: choice.signal, destinations: [TRADE_DESK] }
  const live = (is_live: boolean) => ({
    kind: 'answer',
    fields: { deployments: [{ ...TRADE_DESK, is_live }] },
  })
  await world.activate(asks(choice))
  t.match(await world.activate(off, other), GONE, 'as if it were not there')
  await world.activate(asks(choice), other)
  t.match(await world.activate(off), live(true), 'it stays on for the other')
  t.equal(northwind.deactivations(), 0)
  t.match(await world.activate(off, stranger), GONE)
  t.match(await world.activate(off, other), live(false))
  t.equal(northwind.deactivations(), 1, 'the last one switches it off')
  const ended = await world.store.ledger.query({ action: 'deactivate' }, 10)
  ended.sort((one, other) => other.seq - one.seq) // both may be of one millisecond
  t.same(
    ended.map(({ caller, outcome }) => [caller, outcome]),
    [
      ['other', 'completed'],
      ['buyer', 'completed'],
    ],
  )
})

onEveryStorage('what two callers switch off at once is switched off once', async (t, storage) => {
  const world = await startWorld(t, { agents: ['northwind'], store: await openLive(t, storage.url) })
  const { northwind } = world.sandbox.agents
  const choice = first(world.choices('northwind'))
  const off = { action: 'deactivate', signal_agent_segment_id: choice.signal, destinations: [TRADE_DESK] }
  for (const caller of [buyer, other]) await world.activate(asks(choice), caller)
  await Promise.all([world.activate(off), world.activate(off, other)])
  await due(world.store)
  await world.activation.round()
  t.equal(northwind.deactivations(), 1)
  for (const { outcome } of await world.store.ledger.query({}, 10)) t.equal(outcome, 'completed')
})

onEveryStorage(
  'what stayed on for another whose own activation then fails is switched off by itself',
  async (t, storage) => {
    let isCut = false
    let isRefused = false
    const call: NonNullable<WorldOptions['call']> = (make) => async (upstream, task, args, context) => {
      if (task !== 'activate_signal' || args.action === 'deactivate') {
        return await make(upstream, task, args, context)
      }
      if (isCut) return { kind: 'failed', reason: 'unreachable', message: 'cut' }
      if (isRefused) return { kind: 'error', error: { code: 'PERMISSION_DENIED', message: 'no' } }
      return await make(upstream, task, args, context)
    }
    const world = await startWorld(t, {
      agents: ['northwind'],
      store: await openLive(t, storage.url),
      call,
    })
    const { northwind } = world.sandbox.agents
    const choice = first(world.choices('northwind'))
    const off = { action: 'deactivate', signal_agent_segment_id: choice.signal, destinations: [TRADE_DESK] }
    await world.activate(asks(choice))
    isCut = true
    t.match(await world.activate(asks(choice), other), { error: { code: 'SERVICE_UNAVAILABLE' } })
    const kept = { kind: 'answer', fields: { deployments: [{ ...TRADE_DESK, is_live: true }] } }
    t.match(await world.activate(off), kept, 'the other may have it on')
    t.equal(northwind.deactivations(), 0)
    ;[isCut, isRefused] = [false, true]
    for (let round = 0; round < 3; round += 1) {
      await due(world.store)
      await world.activation.round()
    }
    t.equal(northwind.deactivations(), 1, 'nobody wants it any more')
    const entries = await world.store.ledger.query({}, 10)
    t.same(entries.map(({ caller, action, outcome }) => [caller, action, outcome]).sort(), [
      ['buyer', 'activate', 'completed'],
      ['buyer', 'deactivate', 'completed'],
      ['buyer', 'deactivate', 'completed'],
      ['other', 'activate', 'failed'],
    ])
    t.match(await world.activate(off), { kind: 'answer' }, 'and once more is no harm')
  },
)

onEveryStorage(
  'a call is asked again whatever is still to be decided about its segment',
  async (t, storage) => {
    let answer: 'made' | 'cut' | 'refused' | 'broken' = 'made'
    const call: NonNullable<WorldOptions['call']> =
      (make) =>
      async (...args) => {
        if (args[1] !== 'activate_signal' || answer === 'made') return await make(...args)
        if (answer === 'broken') throw new Error('broken on the way')
        if (answer === 'cut') return { kind: 'failed', reason: 'unreachable', message: 'cut' }
        return { kind: 'error', error: { code: 'PERMISSION_DENIED', message: 'no' } }
      }
    const world = await startWorld(t, { agents: ['northwind'], store: await openLive(t, storage.url), call })
    const { store } = world
    const choice = first(world.choices('northwind'))
    const off = { action: 'deactivate', signal_agent_segment_id: choice.signal, destinations: [TRADE_DESK] }
    await world.activate(asks(choice), other)
    await world.activate(off, other)
    answer = 'cut'
    const cut = asks(choice, { idempotency_key: key() })
    t.match(await world.activate(cut), { error: { code: 'SERVICE_UNAVAILABLE' } })
    answer = 'refused'
    t.match(await world.activate(asks(choice)), { error: { code: 'PERMISSION_DENIED' } })
    answer = 'broken'
    await t.rejects(world.activate(cut), { message: 'broken on the way' })
    const held = store.db.selectFrom('jobs').select('id').where('owner', 'is not', null)
    t.same(await held.execute(), [], 'nobody holds it any more')
    answer = 'made'
    t.match(await world.activate(cut), { kind: 'answer', fields: { deployments: [{ is_live: true }] } })
  },
)

test('what others have on counts as far as the upstream cannot tell them apart, by their newest wish', (t) => {
  const holder: Holder = { caller: 'a', account: 'x', seenAs: 'shared', upstreamAccount: { account_id: 'u' } }
  const { account: _, ...whole } = holder
  const standing = (...others: Partial<Entry>[]) => {
    const entries = others.map((more) => ({
      ...{ ...holder, caller: 'b', action: 'activate', outcome: 'completed', destinations: [TRADE_DESK] },
      ...more,
    }))
    return standingFor(entries as unknown as Entry[], holder).length
  }
  t.equal(standing({}), 1)
  t.equal(standing({}, {}), 1, 'each once')
  t.equal(standing({ outcome: 'pending' }), 1, 'it may be on')
  t.equal(standing({ caller: 'a', account: 'y' }), 1, 'another account of the caller')
  t.equal(standing({ ...whole, account: 'x' }), 0, 'its own')
  t.equal(standing({ upstreamAccount: { account_id: 'v' } }), 0, 'another account there')
  t.equal(standing({ seenAs: 'own' }), 0, 'a credential of its own')
  for (const outcome of ['failed', 'superseded'] as const) t.equal(standing({ outcome }), 0, outcome)
  t.equal(standing({ action: 'deactivate' }, {}), 0, 'the newest first')
  t.equal(standing({}, { action: 'deactivate' }), 1)
  t.end()
})

test('a holder is shown the key of what is live, and of nothing else', (t) => {
  const key = { type: 'segment_id', segment_id: 's' } as const
  const shown = (is_live: boolean, held: (typeof TRADE_DESK)[]) =>
    visibleDeployments([{ ...TRADE_DESK, is_live, activation_key: key }], held)
  t.strictSame(shown(true, [TRADE_DESK]), [{ ...TRADE_DESK, is_live: true, activation_key: key }])
  t.strictSame(shown(false, [TRADE_DESK]), [{ ...TRADE_DESK, is_live: false }])
  t.strictSame(shown(true, []), [{ ...TRADE_DESK, is_live: true }])
  t.end()
})

test('a credential, or an upstream account, of its own is a caller`s own affair', async (t) => {
  const world = await startWorld(t, {
    agents: ['northwind'],
    hasOwnCredential: (caller) => caller === 'other',
  })
  const { northwind } = world.sandbox.agents
  const choice = first(world.choices('northwind'))
  const off = { action: 'deactivate', signal_agent_segment_id: choice.signal, destinations: [TRADE_DESK] }
  await world.activate(asks(choice))
  await world.activate(asks(choice), other)
  t.match(await world.activate(off, other), { kind: 'answer', fields: { deployments: [{ is_live: false }] } })
  t.equal(northwind.deactivations(), 1)
  const account = { account_id: 'acc_1' }
  const at = new Map([['acc_1', new Map([[northwind.url, { account_id: 'nw_77' }]])]])
  const holder: Caller = { ...buyer, id: 'third', accounts: at }
  await world.activate(asks(choice, { account }), holder)
  t.match(await world.activate({ ...off, account }, holder), { kind: 'answer' })
  t.equal(northwind.deactivations(), 2)
})

onEveryStorage('a retry never undoes what was asked for later', async (t, storage) => {
  const sent: unknown[] = []
  let later: Promise<unknown> | undefined
  let isCut = false
  const call: NonNullable<WorldOptions['call']> =
    (make) =>
    async (...args) => {
      if (args[1] !== 'activate_signal') return await make(...args)
      sent.push(args[2].action ?? 'activate')
      const outcome = await make(...args)
      if (!isCut) return outcome
      isCut = false
      later = world.activate(off)
      while ((await world.store.ledger.query({ action: 'deactivate' }, 1)).length === 0);
      return { kind: 'failed', reason: 'unreachable', message: 'cut' }
    }
  const world = await startWorld(t, { agents: ['northwind'], store: await openLive(t, storage.url), call })
  const choice = first(world.choices('northwind'))
  const off = { action: 'deactivate', signal_agent_segment_id: choice.signal, destinations: [TRADE_DESK] }
  isCut = true
  t.match(await world.activate(asks(choice)), { kind: 'refused' })
  t.match(await later, { kind: 'answer', fields: { deployments: [{ is_live: false }] } })
  await due(world.store)
  await world.activation.round()
  t.same(sent, ['activate', 'deactivate'], 'the first is not sent again')
  t.same((await world.store.ledger.query({}, 10)).map(({ action, outcome }) => [action, outcome]).sort(), [
    ['activate', 'superseded'],
    ['deactivate', 'completed'],
  ])
})

onEveryStorage(
  'usage for an upstream that cannot be reached waits for it, and is counted once',
  async (t, storage) => {
    let isDown = true
    const world = await startWorld(t, {
      store: await openLive(t, storage.url),
      call: (make) => async (agentUrl, task, args, context) =>
        agentUrl === urlsOf(world.sandbox).meridian && task === 'report_usage' && isDown
          ? { kind: 'failed', reason: 'backing_off', message: 'it failed moments ago' }
          : await make(agentUrl, task, args, context),
    })
    const accounts = new Map([['acc_1', new Map()]])
    const caller = { ...buyer, accounts }
    const usage = (['meridian', 'northwind'] as const).map((agent) => {
      const { signal, option } = first(world.choices(agent))
      const ids = { signal_agent_segment_id: signal, pricing_option_id: option }
      return { account: { account_id: 'acc_1' }, ...ids, impressions: 5, vendor_cost: 2, currency: 'USD' }
    })
    const reporting_period = { start: '2026-03-01T00:00:00Z', end: '2026-03-31T23:59:59Z' }
    const report = { idempotency_key: key(), reporting_period, usage } as never
    const tell = () => world.activation.reportUsage(report, caller, soon())
    t.match(await tell(), {
      fields: {
        accepted: 1,
        errors: [{ code: 'SERVICE_UNAVAILABLE', field: 'usage[0]' }],
        ext: { tributary: { rows: { accepted: 1, pending: 1, refused: 0 } } },
      },
    })
    isDown = false
    await due(world.store)
    await world.activation.round()
    const { meridian, northwind } = world.sandbox.agents
    t.equal(meridian.usageRows(), 1, 'by itself')
    t.match(await tell(), { fields: { accepted: 2, errors: undefined } })
    t.same([meridian.usageRows(), northwind.usageRows()], [1, 1])
  },
)
