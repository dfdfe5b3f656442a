import { test } from 'tap'
import { CHECKPOINTS, type Checkpoint } from '../../src/activation/delivery.js'
import { due, onEveryStorage } from '../store/support/storages.js'
import { until } from '../support/upstream-world.js'
import { activate, deactivate, findings, type Request, startCrashWorld } from './support/crash-world.js'
import { TRADE_DESK } from './support/parts.js'
import type { Fields } from './support/tributary-child.js'
import { asks, first, key, losingAnswers, startWorld } from './support/world.js'

/** What each kill meets: requests at a checkpoint of ours, and others where only the outside sees them. */
const DEATHS = [
  ['said', 'planned'], // the caller has the answer
  ['asked', 'intended'], // the upstream does not have it yet
  ['acted', 'answered'], // the upstream did it, its answer is on the way
  ['settled'],
  ['concluded'],
] as const
const STARTS = DEATHS.length + 2 // the first, and one that dies while it recovers
type Step = (typeof DEATHS)[number][number]
const NOT_DONE: readonly Step[] = ['planned', 'asked', 'intended']
const REPEATED_AT_ONCE = 8 // by a Tributary that recovers

const isCheckpoint = (step: Step): step is Step & Checkpoint =>
  (CHECKPOINTS as readonly string[]).includes(step)

onEveryStorage('a kill at any step neither loses an activation nor makes two', async (t, storage) => {
  t.setTimeout(300_000) // each kill starts a process
  const crashWorld = await startCrashWorld(t, storage, STARTS)
  const { line, done } = crashWorld
  let child = crashWorld.start()
  await child.opened()
  const found = await findings(child, 'northwind')
  const pools = [0, 4].map((at) => ({ off: found.slice(at, at + 2), on: found.slice(at + 2, at + 4) }))
  const send = (request: object, index: number): Promise<Fields> =>
    child.call(index % 2 === 0 ? 'mcp' : 'a2a', 'activate_signal', request)
  for (const { on } of pools) await Promise.all(on.map(activate).map(send))
  const { status, task_id } = await send(activate(first(await findings(child, 'meridian'))), 0)
  t.equal(status, 'submitted', 'this upstream works on it while we are killed')

  /** Sends the requests and resolves when all of them are at the step; `answers` are there when the process is not. */
  async function bring(requests: readonly Request[], step: Step) {
    if (isCheckpoint(step)) await child.hold(step)
    if (step === 'asked' || step === 'acted') line.hold(step === 'asked' ? 'there' : 'back')
    const answers = Promise.allSettled(requests.map(send))
    if (isCheckpoint(step)) await child.held(requests.length)
    else if (step === 'said') await answers
    else await until('the line holds them', () => line.held() === requests.length)
    line.hold(undefined)
    return { step, requests, answers }
  }

  for (const steps of DEATHS) {
    const before = done()
    const batches: Awaited<ReturnType<typeof bring>>[] = []
    for (const [index, step] of steps.entries()) {
      const { on, off } = pools[index] as (typeof pools)[number]
      batches.push(await bring([...off.map(activate), ...on.map(deactivate)], step))
      pools[index] = { on: off, off: on }
    }
    const requests = batches.flatMap((batch) => batch.requests)
    const acted = batches.flatMap(({ step, requests: sent }) => (NOT_DONE.includes(step) ? [] : sent))
    await child.kill()
    t.equal(done() - before, acted.length, `it died at ${steps.join(' and ')}`)
    await crashWorld.afterDeath()
    if (steps[0] === 'acted') {
      const recovering = crashWorld.start('answered')
      await recovering.held(REPEATED_AT_ONCE)
      await recovering.kill() // and once more while it recovers
      await crashWorld.afterDeath()
    }

    child = crashWorld.start()
    await child.opened()
    for (const { step, requests: sent, answers } of batches) {
      const promised = step === 'planned' ? 0 : sent.length
      const entries = await crashWorld.entriesOf(sent)
      t.equal(entries.length, promised, `what was promised is in the ledger (${step})`)
      t.ok(
        entries.every(({ outcome }) => outcome === 'completed'),
        'and done without being asked again',
      )
      const said = (await answers).map((answer) => (answer.status === 'fulfilled' ? answer.value : undefined))
      t.equal(said.filter(Boolean).length, step === 'said' ? sent.length : 0)
      for (const [index, request] of sent.entries()) {
        const isOn = request.action === 'activate'
        const answer = await send(request, index + 1) // over the other transport: it is the same request
        const live = [{ ...TRADE_DESK, is_live: isOn, ...(isOn && { activation_key: {} }) }]
        t.match(answer, { status: 'completed', deployments: live })
        t.equal(answer.replayed === true, promised > 0, 'a replay says so')
        if (said[index]) t.same(answer.deployments, said[index].deployments, 'and says the same')
      }
    }
    t.equal(done() - before, requests.length, 'each was done once')
  }
  const task = await child.call('a2a', 'get_task_status', { task_id, include_result: true })
  t.match(task, { status: 'completed', result: { deployments: [{ ...TRADE_DESK, is_live: true }] } })
  await child.kill()
  const ledger = await crashWorld.exported()
  const count = (action: string) => ledger.filter((entry) => entry.action === action).length
  t.ok(ledger.every(({ outcome }) => outcome === 'completed'))
  t.same([count('activate'), count('deactivate')], crashWorld.counts())
})

test('no checkpoint of the product is left out', async (t) => {
  t.same(DEATHS.flat().filter(isCheckpoint), CHECKPOINTS)
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
  await due(world.store)
  await world.activation.round()
  t.match(await world.store.ledger.query({}, 10), [{ outcome: 'completed' }])
  t.match(await world.activate(request), { kind: 'answer', replayed: true })
  t.equal(northwind.activations(), 1)
})
