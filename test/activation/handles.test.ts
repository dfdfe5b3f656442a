import tap, { test } from 'tap'
import { due } from '../store/support/storages.js'
import { until } from '../support/upstream-world.js'
import { buyer, other, rosterOf, soon, stranger, TRADE_DESK } from './support/parts.js'
import { asks, first, key, losingAnswers, startWorld, withdrawOffer } from './support/world.js'

/** For the tests that no roster and no lost answer disturbs; the first of them finds it untouched. */
const shared = await startWorld(tap)

test('stale, forged and foreign handles and options get the same bytes', async (t) => {
  const [one, two] = shared.choices('northwind')
  if (!one || !two) throw new Error('the sandbox has too few signals')
  const refused = async (request: object) => JSON.stringify(await shared.activate(request))
  const handles = [
    'sig_AAAAAAAAAAAAAAAAAAAAAA', // never was
    `${one.signal.slice(0, -1)}~`,
    one.option, // an option is no handle
    `${one.signal}.AAAAAAAA`,
    'x',
    '__proto__',
    `${one.signal}\u0000`,
    'nw_seg_a', // an upstream's own
  ]
  const bytes = new Set<string>()
  for (const handle of handles) {
    bytes.add(await refused(asks(one, { signal_agent_segment_id: handle })))
    bytes.add(
      await refused({ action: 'deactivate', signal_agent_segment_id: handle, destinations: [TRADE_DESK] }),
    )
  }
  t.equal(bytes.size, 1)
  t.match(JSON.parse(first([...bytes])), {
    error: { code: 'REFERENCE_NOT_FOUND', field: 'signal_agent_segment_id' },
  })

  const options = [two.option, `${one.offer}.AAAAAAAAAA`, 'nw_seg_a_cpm', 'x', one.offer]
  const said = new Set<string>()
  for (const option of options) said.add(await refused(asks(one, { pricing_option_id: option })))
  t.equal(said.size, 1)
  t.match(JSON.parse(first([...said])), {
    error: { code: 'REFERENCE_NOT_FOUND', field: 'pricing_option_id' },
  })
  t.equal(shared.sandbox.agents.northwind.calls('activate_signal'), 0)
  t.same(await shared.store.ledger.query({}, 10), [], 'nothing of it is written down')
})

test('a signal activated at two upstreams is switched off at the one that is named', async (t) => {
  const northwind = shared.choices('northwind')
  const both = shared.choices('meridian').find(({ signal }) => northwind.some((one) => one.signal === signal))
  const mine = northwind.find(({ signal }) => signal === both?.signal)
  if (!both || !mine) throw new Error('the sandbox has no signal at both')
  await shared.activate(asks(both))
  await shared.activate(asks(mine))
  const off = { action: 'deactivate', destinations: [TRADE_DESK] }
  t.match(await shared.activate({ ...off, signal_agent_segment_id: mine.signal }), {
    error: {
      code: 'INVALID_REQUEST',
      field: 'signal_agent_segment_id',
      details: {
        choices: [{ signal_agent_segment_id: mine.offer }, { signal_agent_segment_id: both.offer }],
      },
    },
  })
  t.match(await shared.activate({ ...off, signal_agent_segment_id: mine.offer }), { kind: 'answer' })
  t.equal(shared.sandbox.agents.northwind.deactivations(), 1)
  t.match(
    await shared.activate({ ...off, signal_agent_segment_id: mine.signal }),
    { kind: 'answer' },
    'one is left',
  )
  t.equal(shared.sandbox.agents.meridian.deactivations(), 1)
})

test('an upstream where only a part of what is switched off is on is one of those to choose from', async (t) => {
  const northwind = shared.choices('northwind')
  const both = shared.choices('meridian').find(({ signal }) => northwind.some((one) => one.signal === signal))
  const mine = northwind.find(({ signal }) => signal === both?.signal)
  if (!both || !mine) throw new Error('the sandbox has no signal at both')
  const [here, there] = ['seat-1', 'seat-2'].map((account) => ({ ...TRADE_DESK, account }))
  await shared.activate(asks(both, { destinations: [here, there] }), stranger)
  const switchOff = (handle: string, destinations: unknown = [here, there]) =>
    shared.activate({ action: 'deactivate', signal_agent_segment_id: handle, destinations }, stranger)
  t.match(await switchOff(both.offer, [here]), { kind: 'answer' })
  await shared.activate(asks(mine, { destinations: [here] }), stranger)
  t.match(await switchOff(mine.signal), {
    error: { code: 'INVALID_REQUEST', field: 'signal_agent_segment_id' },
  })
  t.match(await switchOff(mine.offer, [here]), { kind: 'answer' })
  t.match(await switchOff(mine.signal), { kind: 'answer' }, 'one is left')
  t.match(await shared.store.ledger.query({ caller: stranger.id }, 1), [{ offerHandle: both.offer }])
})

test('every handle and option of the feed activates, by signal and by offer', async (t) => {
  const { northwind, meridian } = shared.sandbox.agents
  const activations = () => northwind.activations() + meridian.activations()
  const before = activations()
  const all = [...shared.choices('northwind'), ...shared.choices('meridian')]
  for (const [index, choice] of all.entries()) {
    const handle = index % 2 ? choice.signal : choice.offer
    t.match(await shared.activate(asks(choice, { signal_agent_segment_id: handle })), { kind: 'answer' })
  }
  t.equal(activations() - before, all.length)
})

test('what was activated can be switched off after it left the feed, by its caller only', async (t) => {
  const world = await startWorld(t, { agents: ['northwind'] })
  const { northwind } = world.sandbox.agents
  const choice = first(world.choices('northwind', ({ row }) => row.deployments.length > 0).slice(-1))
  await world.activate(asks(choice, { destinations: choice.destinations.slice(0, 1) }))
  await withdrawOffer(world, choice.offer)
  const off = {
    action: 'deactivate',
    signal_agent_segment_id: choice.offer,
    destinations: choice.destinations.slice(0, 1),
  }
  t.match(await world.activate(off, other), { error: { code: 'REFERENCE_NOT_FOUND' } })
  t.match(await world.activate(off), { kind: 'answer', fields: { deployments: [{ is_live: false }] } })
  t.match(await world.activate(off), { kind: 'answer' }, 'and once more')
  t.equal(northwind.deactivations(), 2)
  t.match(await world.store.ledger.query({ caller: buyer.id }, 1), [
    { action: 'deactivate', outcome: 'completed' },
  ])
})

test('what was activated can be switched off, and is billed, under the id that its upstream has now', async (t) => {
  const world = await startWorld(t, { agents: ['northwind'] })
  const { northwind } = world.sandbox.agents
  const accounts = new Map([['acc_1', new Map()]])
  const { signal, option } = first(world.choices('northwind'))
  await world.activate(asks(first(world.choices('northwind'))))
  const statics = [{ id: 'renamed', url: northwind.url }]
  world.upstreams.reconfigure(rosterOf(statics))
  const off = { action: 'deactivate', signal_agent_segment_id: signal, destinations: [TRADE_DESK] }
  t.match(await world.activate(off), { kind: 'answer', fields: { deployments: [{ is_live: false }] } })
  t.equal(northwind.deactivations(), 1)
  t.match(await world.store.ledger.query({}, 1), [{ upstream: 'renamed', action: 'deactivate' }])
  const usage = {
    signal_agent_segment_id: signal,
    pricing_option_id: option,
    vendor_cost: 1,
    currency: 'USD',
  }
  const report = {
    ...{ idempotency_key: key(), usage: [{ ...usage, account: { account_id: 'acc_1' } }] },
    reporting_period: { start: '2026-03-01T00:00:00Z', end: '2026-03-31T00:00:00Z' },
  }
  const answer = await world.activation.reportUsage(report as never, { ...buyer, accounts }, soon())
  t.match(answer, { kind: 'answer', fields: { accepted: 1 } })
})

test('what is under way goes on under the id that its upstream has now, or without any', async (t) => {
  for (const isRenamed of [true, false]) {
    const { lost, call } = losingAnswers()
    const world = await startWorld(t, { call })
    const { northwind, meridian } = world.sandbox.agents
    lost.next = 2
    const open = await world.activate(asks(first(world.choices('northwind'))))
    t.match(open, { error: { code: 'SERVICE_UNAVAILABLE' } })
    const submitted = await world.activate(asks(first(world.choices('meridian'))))
    if (submitted.kind !== 'answer') return t.fail('it was not submitted')
    const { task_id } = submitted.fields as { task_id: string }
    const renamed = [northwind, meridian].map(({ url }, at) => ({ id: `new-${at}`, url }))
    world.upstreams.reconfigure(rosterOf(isRenamed ? renamed : []))
    await due(world.store)
    await world.activation.round()
    t.equal(northwind.activations(), 1)
    await until('the task is done', async () => {
      const told = await world.activation.taskStatus({ task_id }, buyer, soon())
      return told.kind === 'answer' && told.status === 'completed'
    })
    t.match(await world.store.ledger.query({}, 10), [{ outcome: 'completed' }, { outcome: 'completed' }])
  }
})

test('what was activated can be switched off after its upstream left, or was excluded', async (t) => {
  for (const whoIsLeft of [() => [], (url: string) => [{ url, exclude: true }]]) {
    const world = await startWorld(t, { agents: ['northwind'] })
    const { northwind } = world.sandbox.agents
    const { signal, option } = first(world.choices('northwind'))
    const account = { account_id: 'acc_1' }
    const at = new Map([[northwind.url, { account_id: 'nw_77' }]])
    const holder = { ...buyer, accounts: new Map([['acc_1', at]]) }
    const on = { signal_agent_segment_id: signal, destinations: [TRADE_DESK], account }
    t.match(await world.activate({ ...on, pricing_option_id: option }, holder), { kind: 'answer' })
    world.upstreams.reconfigure(rosterOf(whoIsLeft(northwind.url)))
    await until('it is gone', () => world.rows().length === 0)
    const off = { ...on, action: 'deactivate' }
    t.match(await world.activate(off, other), { error: { code: 'ACCOUNT_NOT_FOUND' } })
    t.match(await world.activate(off, holder), {
      kind: 'answer',
      fields: { deployments: [{ is_live: false }] },
    })
    t.equal(northwind.deactivations(), 1)
    t.match(await world.store.ledger.query({}, 1), [
      {
        action: 'deactivate',
        outcome: 'completed',
        upstream: northwind.url,
        upstreamAccount: { account_id: 'nw_77' },
      },
    ])
    t.equal(world.upstreams.statuses().length, 0, 'and nothing is read from it')
  }
})

test('an open activation is not repeated once its caller has switched the signal off', async (t) => {
  const { lost, call } = losingAnswers()
  const world = await startWorld(t, { agents: ['northwind'], call })
  const { northwind } = world.sandbox.agents
  const choice = first(world.choices('northwind'))
  lost.next = 2
  t.match(await world.activate(asks(choice)), { error: { code: 'SERVICE_UNAVAILABLE' } })
  const off = { action: 'deactivate', signal_agent_segment_id: choice.signal, destinations: [TRADE_DESK] }
  t.match(await world.activate(off), { kind: 'answer' })
  const calls = northwind.calls('activate_signal')
  await due(world.store)
  await world.activation.round()
  t.equal(northwind.calls('activate_signal'), calls)
  const outcomes = (await world.store.ledger.query({}, 10)).map(({ action, outcome }) => [action, outcome])
  t.same(outcomes, [
    ['deactivate', 'completed'],
    ['activate', 'superseded'],
  ])
})
