import tap, { test } from 'tap'
import { until } from '../support/upstream-world.js'
import { type AgentId, buyer, soon, stranger, TRADE_DESK } from './support/parts.js'
import { asks, type Choice, first, key, startWorld } from './support/world.js'

/** What was sent to upstreams, the last at the end. */
const sent: Record<string, unknown>[] = []
/** One for all: each test activates a signal that no other has. */
const world = await startWorld(tap, {
  call: (call) => async (upstream, task, args, context) => {
    sent.push(args)
    return await call(upstream, task, args, context)
  },
})
const used = new Set<string>()

function untouched(agent: AgentId, where?: (choice: Choice) => boolean): Choice {
  const choice = first(world.choices(agent, where).filter(({ signal }) => !used.has(signal)))
  used.add(choice.signal)
  return choice
}

const notLive = (platform: string) => (choice: { row: { deployments: readonly object[] } }) =>
  choice.row.deployments.some((deployment) => {
    const { platform: name, is_live: live } = deployment as { platform?: string; is_live: boolean }
    return name === platform && !live
  })

test('an activated signal is live, with its key, in the answer and soon in the feed', async (t) => {
  const choice = untouched('northwind', notLive('the-trade-desk'))
  const answer = await world.activate(asks(choice))
  t.match(answer, {
    kind: 'answer',
    message: 'Activated: live on 1 of 1 destination.',
    fields: { deployments: [{ ...TRADE_DESK, is_live: true, activation_key: { type: 'segment_id' } }] },
  })
  t.equal(world.sandbox.agents.northwind.activations(), 1)
  await until('the feed shows it live', () => {
    const row = world.rows().find((one) => one.signal_agent_segment_id === choice.signal)
    return row?.deployments.some((deployment) => deployment.is_live && deployment.activation_key) ?? false
  })

  const off = await world.activate({
    action: 'deactivate',
    signal_agent_segment_id: choice.signal,
    destinations: [TRADE_DESK],
  })
  t.match(off, { kind: 'answer', fields: { deployments: [{ ...TRADE_DESK, is_live: false }] } })
  t.equal(world.sandbox.agents.northwind.deactivations(), 1)
})

test('a destination that is named twice is one', async (t) => {
  const choice = untouched('northwind', notLive('the-trade-desk'))
  const destinations = [TRADE_DESK, { ...TRADE_DESK, account: null }, TRADE_DESK]
  const answer = await world.activate({ ...asks(choice), destinations })
  t.match(answer, { kind: 'answer', message: 'Activated: live on 1 of 1 destination.' })
  t.same(sent.at(-1)?.destinations, [TRADE_DESK], 'for the upstream too')
})

test('a destination that is no url of an agent is refused, and its field is named', async (t) => {
  const choice = untouched('northwind', notLive('the-trade-desk'))
  const before = sent.length
  for (const agent_url of ['ftp://seat.example/a', 'urn:seat:a', 'mcp://seat.example/']) {
    const destinations = [TRADE_DESK, { type: 'agent', agent_url }]
    for (const action of ['activate', 'deactivate']) {
      t.match(await world.activate({ ...asks(choice), action, destinations }), {
        error: { code: 'INVALID_REQUEST', field: 'destinations[1].agent_url' },
      })
    }
  }
  t.equal(sent.length, before)
})

test('who has no grant for a destination gets no key', async (t) => {
  const answer = await world.activate(asks(untouched('northwind')), stranger)
  t.match(answer, { kind: 'answer', fields: { deployments: [{ is_live: true }] } })
  t.notMatch(JSON.stringify(answer), /activation_key/)
})

test('nor does a task that is done tell it, in its result or its history', async (t) => {
  const { store, activation } = world
  const live = { ...TRADE_DESK, is_live: true, activation_key: { type: 'segment_id', segment_id: 'secret' } }
  const ask = { include_result: true, include_history: true }
  for (const { id: caller } of [buyer, stranger]) {
    const id = `task_${caller}`
    await store.tasks.create({ id, caller, type: 'activate_signal', status: 'submitted', request: {} })
    await store.tasks.progress(id, { status: 'completed', result: { deployments: [live] } })
  }
  const told = async (as: typeof buyer) =>
    JSON.stringify(await activation.taskStatus({ ...ask, task_id: `task_${as.id}` }, as, soon()))
  t.equal((await told(buyer)).match(/secret/g)?.length, 2)
  const stranged = await told(stranger)
  t.match(stranged, /"is_live":true/)
  t.notMatch(stranged, /secret/)
})

test('what comes late shows no key once the grant was revoked', async (t) => {
  const { store, activation, activate } = world
  const request = asks(untouched('northwind'), { idempotency_key: key() })
  t.match(JSON.stringify(await activate(request)), /activation_key/)
  const live = { ...TRADE_DESK, is_live: true, activation_key: { type: 'segment_id', segment_id: 'secret' } }
  const results = {
    activate_signal: { deployments: [live] },
    get_signals: { signals: [{ signal_agent_segment_id: 'sig', deployments: [live] }] },
  }
  for (const type of ['activate_signal', 'get_signals'] as const) {
    await store.tasks.create({ id: type, caller: buyer.id, type, status: 'submitted', request: {} })
  }
  const revoked = { ...buyer, destinations: [] }
  for (const type of ['activate_signal', 'get_signals'] as const) {
    await store.tasks.progress(type, { status: 'completed', result: results[type] })
    const ask = { task_id: type, include_result: true, include_history: true }
    const told = async (as: typeof buyer) => JSON.stringify(await activation.taskStatus(ask, as, soon()))
    t.match(await told(buyer), /secret/)
    t.match(await told(revoked), /"is_live":true/)
    t.notMatch(await told(revoked), /secret|activation_key/)
  }
  const replay = await activate(request, revoked)
  t.match(replay, { kind: 'answer', replayed: true, fields: { deployments: [{ is_live: true }] } })
  t.notMatch(JSON.stringify(replay), /activation_key/)
})

test('a submitted activation is a task of ours until the upstream has done it', async (t) => {
  const choice = untouched('meridian')
  const answer = await world.activate(asks(choice))
  t.match(answer, { kind: 'answer', status: 'submitted', fields: { task_id: /^task_/ } })
  if (answer.kind !== 'answer') return
  t.same(answer.fields.deployments, [], 'nothing is known yet')
  t.match(answer.fields.ext, { tributary: { unknown: [TRADE_DESK] } })
  const taskId = answer.fields.task_id as string
  t.match(await world.activation.taskStatus({ task_id: taskId }, buyer, soon()), { status: 'submitted' })
  let status = await world.activation.taskStatus({ task_id: taskId, include_result: true }, buyer, soon())
  const end = Date.now() + 60_000
  while (status.kind === 'answer' && status.status === 'submitted' && Date.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, 50))
    status = await world.activation.taskStatus({ task_id: taskId, include_result: true }, buyer, soon())
  }
  t.match(status, {
    status: 'completed',
    fields: {
      task_type: 'activate_signal',
      result: { deployments: [{ is_live: true, activation_key: {} }] },
    },
  })
  const [entry] = await world.store.ledger.query({ caller: buyer.id }, 1)
  t.match(entry, { outcome: 'completed', taskId, upstream: 'meridian' })
  t.notMatch(JSON.stringify(entry), /activation_key/, 'the ledger holds no keys')
})

test('what is ambiguous is refused with the choices', async (t) => {
  const { northwind } = world.sandbox.agents
  const before = northwind.activations()
  const { signal, offer, option } = untouched('northwind')
  const unpriced = await world.activate({ signal_agent_segment_id: signal, destinations: [TRADE_DESK] })
  t.match(unpriced, { error: { code: 'INVALID_REQUEST', field: 'pricing_option_id' } })
  if (unpriced.kind === 'refused') {
    const { choices } = unpriced.error.details as { choices: Record<string, unknown>[] }
    const chosen = choices.find((choice) => choice.pricing_option_id === option)
    t.match(chosen, { signal_agent_segment_id: offer, destinations: [TRADE_DESK] })
    t.match(await world.activate(chosen ?? {}), { kind: 'answer' }, 'sent as it stands')
  }
  const foreign = { type: 'platform', platform: 'amazon-dsp' }
  t.match(
    await world.activate({
      ...{ signal_agent_segment_id: offer, pricing_option_id: option },
      destinations: [TRADE_DESK, foreign],
    }),
    { error: { code: 'INVALID_REQUEST', field: 'destinations[1]', details: { choices: [{}] } } },
  )
  t.equal(northwind.activations(), before + 1, 'the choice alone')
})

test('the upstream gets its own ids, the mapped account and the governance context', async (t) => {
  const before = sent.length
  const mapped = { account_id: 'nw_77' }
  const accounts = new Map([['acc_acme', new Map([[world.sandbox.agents.northwind.url, mapped]])]])
  const choice = untouched('northwind')
  const request = asks(choice, {
    idempotency_key: key(),
    account: { account_id: 'acc_acme' },
    governance_context: 'token',
    context: { mine: 1 },
  })
  t.match(await world.activate(request, { ...buyer, accounts }), { kind: 'answer' })
  const seen = sent.slice(before)
  t.match(seen, [
    {
      signal_agent_segment_id: /^nw_seg_/,
      idempotency_key: /^trb_[A-Za-z0-9_-]{43}$/,
      account: mapped,
      governance_context: 'token',
      context: { mine: 1 },
    },
  ])
  t.notMatch(JSON.stringify(seen), new RegExp(choice.signal), 'nothing of ours is sent')
  t.match(await world.activate({ ...request, idempotency_key: key(), account: { account_id: 'acc_no' } }), {
    error: { code: 'ACCOUNT_NOT_FOUND', field: 'account' },
  })
})

test('an upstream knows a declared account by its natural key, however the caller names it', async (t) => {
  const before = sent.length
  const natural = { brand: { domain: 'acme.example' }, operator: 'agency.example' }
  const synced = await world.activation.syncAccounts(
    { idempotency_key: key(), accounts: [{ ...natural, billing: 'operator' }] },
    buyer,
  )
  if (synced.kind !== 'answer') return t.fail(synced.error.message)
  const [{ account_id } = {}] = synced.fields.accounts as { account_id?: string }[]
  const choice = untouched('northwind')
  t.match(await world.activate(asks(choice, { account: natural })), { kind: 'answer' })
  const off = { action: 'deactivate', signal_agent_segment_id: choice.signal, destinations: [TRADE_DESK] }
  t.match(await world.activate({ ...off, account: { account_id } }), { kind: 'answer' })
  const accounts = sent.slice(before).map(({ account }) => account)
  t.same(accounts, [natural, natural])
  t.match(await world.store.ledger.query({}, 2), [
    { action: 'deactivate', account: /acme\.example/, upstreamAccount: natural },
    { action: 'activate', account: /acme\.example/, upstreamAccount: natural },
  ])
})

test('a natural key that was never declared opens its account; a closed one stays shut', async (t) => {
  const before = sent.length
  const natural = { brand: { domain: 'novamotors.example' }, operator: 'pinnacle-agency.example' }
  const choice = untouched('northwind')
  t.match(await world.activate(asks(choice, { account: natural })), { kind: 'answer' })
  const accounts = sent.slice(before).map(({ account }) => account)
  t.same(accounts, [natural])
  t.match(await world.store.ledger.query({}, 1), [
    { account: /novamotors\.example/, upstreamAccount: natural },
  ])

  const synced = await world.activation.syncAccounts(
    { idempotency_key: key(), accounts: [{ ...natural, billing: 'operator' }] },
    buyer,
  )
  if (synced.kind !== 'answer') return t.fail(synced.error.message)
  const [{ account_id } = {}] = synced.fields.accounts as { account_id?: string }[]
  const off = { action: 'deactivate', signal_agent_segment_id: choice.signal, destinations: [TRADE_DESK] }
  t.match(await world.activate({ ...off, account: { account_id } }), { kind: 'answer' }, 'it is one account')

  await world.activation.syncAccounts({ idempotency_key: key(), accounts: [], delete_missing: true }, buyer)
  t.match(await world.activate(asks(choice, { account: natural })), {
    error: { code: 'ACCOUNT_NOT_FOUND', field: 'account' },
  })
})
