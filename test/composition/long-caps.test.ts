import { test } from 'tap'
import { lacks, startScripted, total, until } from './support/scripted.js'
import { type Agent, ownRow } from './support/scripted-agents.js'

const DAY_MS = 86_400_000

test('what may be kept for longer than a timer of the platform can run is kept', async (t) => {
  const world = await startScripted(t, { agents: 2 })
  const [mine, listed] = world.agents as [Agent, Agent]
  for (const agent of world.agents) agent.offer([ownRow(agent.url, 0, 2)])
  world.registry.list([listed])
  await world.start({
    statics: [{ id: 'mine', agent: mine }],
    registries: [world.registry.url],
    pace: { staleAfterMs: 40 * DAY_MS, dropAfterMs: 60 * DAY_MS },
  })
  await until(world.page, (answer) => total(answer) === 2)
  mine.behave('fails')
  world.registry.behave('empty')
  const during = await until(
    world.page,
    (answer) => /mine is stale/.test(lacks(answer)) && /lists nobody/.test(lacks(answer)),
  )
  t.equal(total(during), 2)
  const { revision } = await world.ready()
  t.equal(total(await world.page()), 2)
  t.same((await world.ready()).revision, revision, 'nothing leaves')
})
