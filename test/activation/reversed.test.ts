/** Requests that wait for their turn at an upstream, and of which a later one reverses a part meanwhile. */
import { type Test, test } from 'tap'
import { until } from '../support/until.js'
import { TRADE_DESK } from './support/parts.js'
import { asks, first, startWorld, type WorldOptions } from './support/world.js'

const [HERE, THERE] = ['seat-1', 'seat-2'].map((account) => ({ ...TRADE_DESK, account })) as [object, object]

/** What an agent is sent of a request for both seats of which the second is reversed while it waits, and what is answered. */
async function halfReversed(t: Test, action: 'activate' | 'deactivate') {
  const opposite = action === 'activate' ? 'deactivate' : 'activate'
  const sent: [which: unknown, destinations: unknown][] = []
  let open = Promise.resolve()
  const call: NonNullable<WorldOptions['call']> = (make) => async (agentUrl, task, args, context) => {
    if (task === 'activate_signal') sent.push([args.action ?? 'activate', args.destinations])
    if (task === 'activate_signal') await open
    return await make(agentUrl, task, args, context)
  }
  const world = await startWorld(t, { agents: ['northwind'], call })
  const choice = first(world.choices('northwind'))
  const ask = (which: string, ...destinations: object[]) =>
    world.activate(asks(choice, { action: which, destinations }))
  /** Asks for it, and resolves when that is written down. */
  async function begin(which: string, ...destinations: object[]) {
    const entries = async () => (await world.store.ledger.query({}, 20)).length
    const before = await entries()
    const answer = ask(which, ...destinations)
    await until(entries, (now) => now > before)
    return { answer }
  }
  await ask('activate', HERE, THERE)
  if (action === 'activate') await ask('deactivate', HERE)
  let letGo = () => {}
  open = new Promise((resolve) => {
    letGo = resolve
  })
  const under = await begin(opposite, THERE)
  const waiting = await begin(action, HERE, THERE)
  const reversing = await begin(opposite, THERE)
  letGo()
  await Promise.all([under.answer, reversing.answer])
  return { answer: await waiting.answer, sent: sent.filter(([which]) => which === action).slice(-1) }
}

test('of an activation that was never sent, what was not switched off since is sent', async (t) => {
  const { answer, sent } = await halfReversed(t, 'activate')
  t.match(answer, {
    fields: {
      deployments: [{ ...HERE, is_live: true }],
      ext: { tributary: { unknown: [THERE] } },
    },
  })
  t.same(sent, [['activate', [HERE]]])
})

test('of a deactivation that was never sent, what was not activated since is sent', async (t) => {
  const { answer, sent } = await halfReversed(t, 'deactivate')
  const deployments = [
    { ...HERE, is_live: false },
    { ...THERE, is_live: true },
  ]
  t.match(answer, { fields: { deployments } })
  t.same(sent, [['deactivate', [HERE]]])
})
