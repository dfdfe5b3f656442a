import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { test } from 'tap'
import { buyer, soon } from './support/parts.js'
import { asks, first, key, startWorld, type World, type WorldOptions } from './support/world.js'

type Outcome = Awaited<ReturnType<Parameters<NonNullable<WorldOptions['call']>>[0]>>

/** What northwind's activations come to on the way, whatever it does. */
const answering =
  (outcome: Outcome): NonNullable<WorldOptions['call']> =>
  (make) =>
  async (agentUrl, task, args, context) =>
    task === 'activate_signal' || task === 'report_usage' ? outcome : make(agentUrl, task, args, context)

const CUT: Outcome = { kind: 'failed', reason: 'unreachable', message: 'other side closed' }
const NOT_SENT: Outcome = { kind: 'failed', reason: 'backing_off', message: 'no place was free' }

/** Ends the one open job of a kind undone, as an operator's action does. */
async function giveUp({ store, activation }: World, kind: 'call' | 'upstream_task'): Promise<void> {
  const openOnes = async () => (await store.work.openJobs(10)).filter((job) => job.kind === kind)
  const hold = { owner: randomUUID(), ms: 60_000 }
  for (const end = Date.now() + 60_000; Date.now() < end; await wait(20)) {
    const [job] = await openOnes()
    const held = job && (await store.jobs.claim(job.id, hold, { early: true }))
    if (!held) continue
    await activation.givingUp[kind](held)
    if ((await openOnes()).length > 0) throw new Error(`a ${kind} is still open`)
    return
  }
  throw new Error(`no ${kind} could be given up`)
}

test('an activation whose effect is unknown is given up as unknown, and never sent again', async (t) => {
  const world = await startWorld(t, { agents: ['northwind'], call: answering(CUT) })
  const request = asks(first(world.choices('northwind')), { idempotency_key: key() })
  t.match(await world.activate(request), { error: { code: 'SERVICE_UNAVAILABLE' } })
  await giveUp(world, 'call')
  t.match(await world.store.ledger.query({}, 10), [{ outcome: 'unknown' }])
  const again = await world.activate(request)
  t.equal(again.kind, 'refused')
  t.match(await world.store.work.openJobs(10), [], 'the same request opens nothing')
})

test('a report that certainly reached nobody is given up as refused', async (t) => {
  const world = await startWorld(t, { agents: ['northwind'], call: answering(NOT_SENT) })
  const { signal, option } = first(world.choices('northwind'))
  const accounts = new Map([
    ['acc_1', new Map([['https://signals.northwind.example/mcp', { account_id: 'n' }]])],
  ])
  const request = {
    idempotency_key: key(),
    reporting_period: { start: '2026-03-01T00:00:00Z', end: '2026-03-31T23:59:59Z' },
    usage: [
      {
        ...{ account: { account_id: 'acc_1' }, signal_agent_segment_id: signal, pricing_option_id: option },
        ...{ impressions: 1_000, vendor_cost: 2, currency: 'USD' },
      },
    ],
  }
  const report = () => world.activation.reportUsage(request as never, { ...buyer, accounts }, soon())
  await report()
  await giveUp(world, 'call')
  t.match(await report(), { fields: { accepted: 0, errors: [{ message: /ended it before it was sent/ }] } })
})

test('the task of an upstream that is given up ends, and what came of it is unknown', async (t) => {
  const world = await startWorld(t, { agents: ['meridian'], sandbox: { activationDelayMs: 600_000 } })
  t.match(await world.activate(asks(first(world.choices('meridian')))), { status: 'submitted' })
  await giveUp(world, 'upstream_task')
  t.match(await world.store.ledger.query({}, 10), [{ outcome: 'unknown' }])
  t.match(await world.activation.listTasks({} as never, buyer, soon()), {
    fields: { tasks: [{ status: 'failed' }] },
  })
})
