import { test } from 'tap'
import { passing, startPassing, startScripted, total } from './support/scripted.js'
import { ownRow } from './support/scripted-agents.js'
import { shiftableClock } from './support/shiftable-clock.js'

test('three registries that change within a second change the feed once', async (t) => {
  const { clock, shift } = shiftableClock({ stands: true })
  const world = await startScripted(t, { agents: 6, registries: 3, clock })
  const { agents, registries } = world
  for (const agent of agents) agent.offer([ownRow(agent.url, 0, 2)])
  /** The first of its two agents goes, or comes. */
  const listAll = (first: boolean) =>
    registries.forEach((registry, at) => {
      registry.list(agents.slice(at * 2 + (first ? 0 : 1), at * 2 + 2))
    })
  listAll(true)
  await startPassing(
    world,
    { registries: registries.map(({ url }) => url), pace: { refreshMs: 60_000 } },
    shift,
  )
  await passing(shift, world.page, (answer) => total(answer) === 6)

  const totals: number[] = []
  listAll(false)
  const page = async () => {
    const answer = await world.page()
    totals.push(total(answer))
    return answer
  }
  await passing(shift, page, (answer) => total(answer) === 3)
  t.same([...new Set(totals)], [6, 3])
})
