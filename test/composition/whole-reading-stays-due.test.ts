import { test } from 'tap'
import type { Answer } from '../support/federation.js'
import { lacks, startScripted, until } from './support/scripted.js'
import { type Agent, ownRow } from './support/scripted-agents.js'
import { shiftableClock } from './support/shiftable-clock.js'

type Test = { teardown(task: () => unknown): void }

const LOOK_MS = 20 * 60_000 // between two looks at pages whose token says that nothing changed
const NOT_WHOLE = /a0 is stale: it says itself that its feed is not complete/

const price = ({ signals = [] }: Answer) =>
  (signals[0]?.pricing_options?.[0] as { cpm?: number } | undefined)?.cpm

/** One agent whose rows have been looked at once under their token, and are not due for another look. */
async function startLookedAt(t: Test) {
  const { clock, shift } = shiftableClock()
  const world = await startScripted(t, { agents: 1, clock })
  const [agent] = world.agents as [Agent]
  const settings = { statics: [{ id: 'a0', agent }], pace: { staleAfterMs: 2 * LOOK_MS } }
  const offer = (cpm: number) => agent.offer([ownRow(agent.url, 0, cpm)])
  offer(2)
  await world.start(settings)
  await until(
    async () => agent.firstPages().filter((how) => how === 'conditional').length,
    (polls) => polls > 2,
  )
  return { world, agent, offer, shift, settings }
}

/** Another price under the token that the old one had; while all is read again, the feed says that it is not complete. */
async function contradict({ world, agent, offer, shift }: Awaited<ReturnType<typeof startLookedAt>>) {
  agent.quietly(() => {
    offer(9)
    agent.lack(['signals'])
  })
  shift(LOOK_MS)
  await until(world.page, (answer) => NOT_WHOLE.test(lacks(answer)))
}

test('a page that contradicts its token has the feed read in full until that has succeeded', async (t) => {
  const started = await startLookedAt(t)
  const { world, agent } = started
  await contradict(started)
  t.equal(price(await world.page()), 2, 'the last good rows stay')
  agent.quietly(() => agent.lack([]))
  await until(world.page, (answer) => price(answer) === 9)
})

test('it stays due over restarts', async (t) => {
  const started = await startLookedAt(t)
  const { world, agent, settings } = started
  await contradict(started)
  await world.stop()
  await world.start(settings)
  await until(world.page, (answer) => NOT_WHOLE.test(lacks(answer)))
  await world.stop()
  agent.quietly(() => agent.lack([]))
  const before = agent.firstPages().length
  await world.start(settings)
  await until(world.page, (answer) => price(answer) === 9)
  t.equal(agent.firstPages()[before], 'whole', 'no token was sent')
})

test('a reading in full that an operator asked for stays due while the upstream is down', async (t) => {
  const { world, agent, offer } = await startLookedAt(t)
  agent.behave('fails')
  await until(world.page, (answer) => /a0 is stale/.test(lacks(answer)))
  const calls = agent.calls()
  t.equal((await world.refresh('a0')).status, 202)
  await until(
    async () => agent.calls(),
    (now) => now > calls + 1,
  )
  agent.quietly(() => offer(9))
  agent.behave('answers')
  await until(world.page, (answer) => price(answer) === 9)
  t.pass('it was read in full')
})
