import tap, { test } from 'tap'
import { createActivation } from '../../src/activation/activation.js'
import type { Answer } from '../../src/adcp/answer.js'
import { systemClock } from '../../src/net/clock.js'
import { DEFAULT_RETENTION } from '../../src/store/retention.js'
import { NO_ROWS } from '../../src/upstreams/rows/read-rows.js'
import { onEveryStorage } from '../store/support/storages.js'
import { withTasks } from './support/asked.js'
import { buyer, other, soon, TRADE_DESK } from './support/parts.js'
import { asks, type Choice, first, key, openLive, startWorld } from './support/world.js'

const countOf = (answers: readonly Answer[], holds: (answer: Answer) => boolean) =>
  answers.filter(holds).length
const isReplay = (answer: Answer) => answer.kind === 'answer' && answer.replayed === true

onEveryStorage('200 identical requests at once run one upstream call', async (t, storage) => {
  const world = await startWorld(t, { agents: ['northwind'], store: await openLive(t, storage.url) })
  const { northwind } = world.sandbox.agents
  const request = asks(first(world.choices('northwind')), { idempotency_key: key() })
  const answers = await Promise.all(Array.from({ length: 200 }, () => world.activate(request)))
  t.equal(northwind.calls('activate_signal'), 1)
  t.equal(countOf(answers, isReplay), 199)
  t.equal(
    countOf(answers, ({ kind }) => kind === 'answer'),
    200,
  )
  t.match(await world.activate(request), { kind: 'answer', replayed: true }, 'and later too')
  t.equal(northwind.calls('activate_signal'), 1)
})

const MANY = 200 // thousands: `node dist/bench/activation.js`

onEveryStorage('many distinct requests at once all land', async (t, storage) => {
  const keys = new Set<unknown>()
  const live = { status: 'completed', deployments: [{ ...TRADE_DESK, is_live: true }] }
  const world = await startWorld(t, {
    store: await openLive(t, storage.url),
    agents: ['northwind'],
    // An agent that answers at once: what is proved is our side, at its own pace.
    call: () => async (_upstream, _task, args) => {
      keys.add(args.idempotency_key)
      return { kind: 'answer', payload: live, rows: NO_ROWS }
    },
  })
  const choices = world.choices('northwind')
  const startedAt = Date.now()
  const answers = await Promise.all(
    Array.from({ length: MANY }, (_, index) =>
      world.activate(asks(choices[index % choices.length] as Choice)),
    ),
  )
  t.comment(`${MANY} activations in ${Date.now() - startedAt} ms`)
  t.equal(
    countOf(answers, (answer) => answer.kind === 'answer' && !answer.replayed),
    MANY,
  )
  t.equal(keys.size, MANY)
  t.equal((await world.store.ledger.query({ outcome: 'completed' }, MANY + 1)).length, MANY)
})

onEveryStorage('replicas that share a storage run one upstream call for one request', async (t, storage) => {
  if (!storage.isShared) return void t.pass('an embedded storage has one process')
  const world = await startWorld(t, { agents: ['northwind'], store: await openLive(t, storage.url) })
  const replica = withTasks(
    createActivation({
      retention: DEFAULT_RETENTION,
      store: await openLive(t, storage.url),
      clock: systemClock,
      newId: () => crypto.randomUUID(),
      resolve: (handle) => world.feed.resolve(handle),
      upstreamAt: world.upstreams.idOf,
      hasOwnCredential: () => false,
      call: (upstream, task, args, { deadline }) => world.upstreams.call(upstream, task, args, { deadline }),
      refreshSoon: () => {},
      onProblem: (problem) => t.comment(problem),
    }),
  )
  t.teardown(() => replica.close())
  world.sandbox.delay('signals.northwind.example', 50)
  const request = asks(first(world.choices('northwind')), { idempotency_key: key() })
  const answers = await Promise.all([
    world.activate(request),
    replica.activate(request as never, buyer, soon()),
    world.activate(request),
  ])
  t.equal(world.sandbox.agents.northwind.calls('activate_signal'), 1)
  t.same(
    answers.map((answer) => answer.kind),
    ['answer', 'answer', 'answer'],
  )
})

/** For tests of which each has signals of its own. */
const world = await startWorld(tap, { agents: ['northwind'] })
const { northwind } = world.sandbox.agents
const [one, two, three, four] = world.choices('northwind') as [Choice, Choice, Choice, Choice]

test('another request under a used key is a conflict that tells nothing', async (t) => {
  const before = northwind.activations()
  const used = key()
  const activated = await world.activate(asks(one, { idempotency_key: used }))
  const conflict = await world.activate(asks(two, { idempotency_key: used }))
  t.match(conflict, { error: { code: 'IDEMPOTENCY_CONFLICT', field: undefined, suggestion: undefined } })
  const told = JSON.stringify(conflict)
  for (const secret of [
    one.signal,
    one.option,
    JSON.stringify(activated).match(/segment_id":"([^"]+)/)?.[1],
  ]) {
    t.notMatch(told, new RegExp(String(secret)))
  }
  t.equal(northwind.activations(), before + 1)
})

test("a caller's key means nothing to another caller", async (t) => {
  const before = northwind.activations()
  const request = asks(three, { idempotency_key: key() })
  t.match(await world.activate(request), { kind: 'answer', replayed: undefined })
  t.match(await world.activate(request, other), { kind: 'answer', replayed: undefined })
  t.equal(northwind.activations(), before + 2)
})

test('a refused request frees its key, and a context of its own makes no other request', async (t) => {
  const used = key()
  const foreign = { type: 'platform', platform: 'nowhere' }
  t.match(await world.activate(asks(four, { idempotency_key: used, destinations: [foreign] })), {
    kind: 'refused',
  })
  const request = asks(four, { idempotency_key: used })
  t.match(await world.activate({ ...request, context: { attempt: 1 } }), { kind: 'answer' })
  t.match(await world.activate({ ...request, context: { attempt: 2 } }), { kind: 'answer', replayed: true })
})
