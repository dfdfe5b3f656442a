import { fork } from 'node:child_process'
import { once } from 'node:events'
import { type Test, test } from 'tap'
import { CHECKPOINTS, type Checkpoint } from '../../src/activation/delivery.js'
import { embedded, onEveryStorage } from '../store/support/storages.js'
import type { CrashOrder } from './support/crashing-process.js'
import { buyer, soon, TRADE_DESK } from './support/parts.js'
import { asks, first, key, losingAnswers, openLive, startWorld, urlsOf, type World } from './support/world.js'

const program = new URL('./support/crashing-process.js', import.meta.url)

/** Sends the request to a process of its own, which dies at the step. */
async function crash(t: Test, world: World, url: string, request: Record<string, unknown>, at: Checkpoint) {
  const child = fork(program, { stdio: 'inherit' })
  const order: CrashOrder = {
    url,
    hosts: { ...world.sandbox.hosts },
    urls: urlsOf(world.sandbox),
    request,
    at,
  }
  child.send(order)
  const [, signal] = await once(child, 'exit')
  t.equal(signal, 'SIGKILL', `the process died at ${at}`)
}

onEveryStorage('a kill at any step neither loses an activation nor makes two', async (t, storage) => {
  t.setTimeout(60_000) // each step starts a process
  const store = await openLive(t, storage.url)
  const world = await startWorld(t, { store, agents: ['northwind'] })
  const { northwind } = world.sandbox.agents
  const choices = world.choices('northwind')
  // Each step on the embedded storage; on the shared one the worst of them.
  const steps = storage.server ? (['answered'] as const) : CHECKPOINTS
  for (const [index, at] of steps.entries()) {
    const choice = choices[index]
    if (!choice) throw new Error('the sandbox has too few signals')
    const before = northwind.activations()
    const request: Record<string, unknown> = asks(choice, { idempotency_key: key() })
    await crash(t, world, storage.url, request, at)
    await store.calls.endLeases() // the dead process's; where replicas share, time ends them
    await world.activation.round()

    const entries = await store.ledger.query({ caller: buyer.id, handle: choice.signal }, 10)
    if (at === 'planned') t.same(entries, [], 'nothing was promised, nothing was done')
    else t.match(entries, [{ outcome: 'completed', action: 'activate' }], `the ledger tells of it (${at})`)
    t.equal(entries.length, at === 'planned' ? 0 : 1)
    t.equal(northwind.activations() - before, entries.length, 'as often as the ledger says')

    const answer = await world.activation.activate(request as never, buyer, soon())
    t.match(answer, { kind: 'answer', fields: { deployments: [{ ...TRADE_DESK, is_live: true }] } })
    t.equal(answer.kind === 'answer' && answer.replayed === true, at !== 'planned', 'a replay says so')
    t.equal(northwind.activations() - before, 1, 'and once in all')
    t.equal((await store.ledger.query({ caller: buyer.id, handle: choice.signal }, 10)).length, 1)
  }
})

test('a kill in the middle of a deactivation leaves it done once', async (t) => {
  const storage = await embedded(t)
  t.setTimeout(60_000) // each step starts a process
  const store = await openLive(t, storage.url)
  const world = await startWorld(t, { store, agents: ['northwind'] })
  const { northwind } = world.sandbox.agents
  const choice = first(world.choices('northwind'))
  for (const at of ['intended', 'answered'] satisfies Checkpoint[]) {
    t.match(await world.activate(asks(choice)), { kind: 'answer' })
    const before = northwind.deactivations()
    const request = {
      ...{ action: 'deactivate', idempotency_key: key(), destinations: [TRADE_DESK] },
      signal_agent_segment_id: choice.signal,
    }
    await crash(t, world, storage.url, request, at)
    await store.calls.endLeases()
    await world.activation.round()
    t.equal(northwind.deactivations() - before, 1)
    t.match(await store.ledger.query({ caller: buyer.id, handle: choice.signal }, 1), [
      { action: 'deactivate', outcome: 'completed' },
    ])
  }
})

test('an upstream that dies between request and answer is asked again at once', async (t) => {
  const world = await startWorld(t, { agents: ['northwind'] })
  const { northwind } = world.sandbox.agents
  northwind.loseAnswers(1)
  t.match(await world.activate(asks(first(world.choices('northwind')))), { kind: 'answer' })
  t.equal(northwind.activations(), 1)
  t.match(await world.store.ledger.query({}, 10), [{ outcome: 'completed' }])
})

test('an upstream that dies again is asked until it answers, and the ledger says so', async (t) => {
  const { lost, call } = losingAnswers()
  const world = await startWorld(t, { agents: ['northwind'], call })
  const { northwind } = world.sandbox.agents
  lost.next = 2
  const request = asks(first(world.choices('northwind')), { idempotency_key: key() })
  t.match(await world.activate(request), { error: { code: 'SERVICE_UNAVAILABLE', retry_after: Number } })
  t.match(await world.store.ledger.query({}, 10), [{ outcome: 'pending' }])
  t.equal(northwind.activations(), 1, 'it was done, which nobody here knows yet')
  await world.activation.round()
  t.match(await world.store.ledger.query({}, 10), [{ outcome: 'completed' }])
  t.match(await world.activate(request), { kind: 'answer', replayed: true })
  t.equal(northwind.activations(), 1)
})
