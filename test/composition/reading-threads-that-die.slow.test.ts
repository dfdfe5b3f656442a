/** The threads that read answers are those of a process: here none was started before this test watches them. */
import { test } from 'tap'
import { lacks, startScripted, total, until } from './support/scripted.js'
import { type Agent, ownRow } from './support/scripted-agents.js'
import { watchThreads } from './support/threads.js'

const threads = watchThreads()

test('a reading thread that dies in the middle of a page costs that reading alone', async (t) => {
  const world = await startScripted(t, { agents: 2 })
  const [dying, well] = world.agents as [Agent, Agent]
  const rows = (agent: Agent, count: number) =>
    Array.from({ length: count }, (_, at) => ({
      ...ownRow(agent.url, at, 2),
      description: 'A kilobyte. '.repeat(80),
    }))
  const named = async () =>
    (await world.walk()).flatMap(({ signals = [] }) => signals.map(({ name }) => name)).sort()
  dying.offer(rows(dying, 200))
  well.offer(rows(well, 100))
  await world.start({ statics: [dying, well].map((agent, at) => ({ id: `a${at}`, agent })) })
  for (let count = 300; count <= 500; count += 100) {
    const before = await named()
    const started = threads.started('answer')
    const sent = threads.holdNext('answer', 1) // its second page
    dying.offer(rows(dying, count))
    const deliver = await sent
    t.same(await named(), before, 'the feed stays')
    deliver()
    await threads.end('answer')
    await until(world.page, (answer) => total(answer) === count + 100 && lacks(answer) === '')
    t.equal(threads.started('answer'), started + 1)
    t.equal((await named()).length, count + 100)
  }
})
