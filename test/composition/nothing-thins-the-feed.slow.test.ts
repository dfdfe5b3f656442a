import { test } from 'tap'
import { lacks, passing, type Scripted, startScripted, total, until } from './support/scripted.js'
import { type Agent, ownRow } from './support/scripted-agents.js'
import { shiftableClock } from './support/shiftable-clock.js'
import { watchThreads } from './support/threads.js'

const threads = watchThreads()

const rowsOf = (agent: Agent, count: number, cpm = 2) =>
  Array.from({ length: count }, (_, at) => ownRow(agent.url, at, cpm))

const idOf = ({ name }: Agent) => name
const asStatics = (agents: readonly Agent[]) => agents.map((agent) => ({ id: idOf(agent), agent }))

/** Reads one page after another while `work` goes on; every answer. */
async function meanwhile(world: Scripted, work: () => Promise<unknown>) {
  const answers: Awaited<ReturnType<Scripted['page']>>[] = []
  let done = false
  const working = work().finally(() => {
    done = true
  })
  while (!done) {
    answers.push(await world.page({ pagination: { max_results: 1 } }))
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await working
  return answers
}

test('what is read while the first snapshot is built is in the feed', async (t) => {
  const { clock, shift } = shiftableClock()
  const world = await startScripted(t, { inThreads: true, agents: 8, clock })
  for (const agent of world.agents) {
    agent.offer(rowsOf(agent, 50))
    agent.behave('hangs')
  }
  const sent = threads.holdNext('build-worker')
  await world.start(
    {
      statics: asStatics(world.agents),
      pace: { refreshMs: 3_600_000, timeoutMs: 120_000 },
      openAfterMs: 5_000,
    },
    false,
  )
  await until(
    async () => world.agents,
    (all) => all.every((agent) => agent.calls() > 0),
  )
  shift(5_000) // it opens without them
  const build = await sent
  for (const agent of world.agents) agent.behave('answers')
  await until(
    async () => world.federation().statuses(),
    (all) => all.every(({ state }) => state === 'fresh'),
  )
  build()
  await world.federation().ready
  const whole = await until(world.page, (answer) => total(answer) === 400)
  t.equal(lacks(whole), '')
  t.match(await world.ready(), { status: 'ready', revision: { behind_ms: 0 } })
})

test('a reload with other defaults takes no row out, not for a moment', async (t) => {
  const world = await startScripted(t, { inThreads: true, agents: 4 })
  for (const agent of world.agents) agent.offer(rowsOf(agent, 50))
  const statics = asStatics(world.agents)
  await world.start({ statics })
  const before = await until(world.page, (answer) => total(answer) === 200)
  const answers = await meanwhile(world, async () => {
    for (let n = 1; n <= 10; n += 1) {
      world.apply({ statics, pace: { timeoutMs: 60_000 + n, refreshMs: 30 + n, pageSize: 50 + n } })
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  })
  t.same([...new Set(answers.map(total))], [200])
  t.same([...new Set(answers.map((each) => each.wholesale_feed_version))], [before.wholesale_feed_version])
  t.same([...new Set(answers.map(lacks))], [''])

  const renamed = statics.map(({ id, agent }) => ({ id: `${id}-renamed`, agent }))
  const during = await meanwhile(world, async () => {
    world.apply({ statics: renamed })
    const hasNewName = (id: string) => id.endsWith('-renamed')
    await until(world.page, ({ signals = [] }) =>
      signals.every(({ ext }) => ext.tributary.offers.every(({ upstream }) => hasNewName(upstream))),
    )
  })
  t.same([...new Set(during.map(total))], [200], 'nor does another name')
})

test('registries that list nobody, or cannot be read, take nobody out; an agent that leaves a full list goes', async (t) => {
  const { clock, shift } = shiftableClock()
  const world = await startScripted(t, { inThreads: true, clock })
  const [first, second, third] = world.agents as [Agent, Agent, Agent]
  for (const agent of world.agents) agent.offer(rowsOf(agent, 20))
  const listed = [first, second].map(({ url, name }) => ({ url, name }))
  world.registry.list(listed)
  const settings = { registries: [world.registry.url], statics: [{ id: 'mine', agent: third }] }
  await world.start(settings)
  const before = await passing(shift, world.page, (answer) => total(answer) === 60)

  for (const mode of ['empty', 'garbage'] as const) {
    world.registry.behave(mode)
    const troubled = await passing(shift, world.page, (answer) => /The registry/.test(lacks(answer)))
    t.equal(total(troubled), 60, mode)
    t.match(
      lacks(troubled),
      /The registry 127\.0\.0\.1:\d+ lists nobody that can be used.*stay on its last word/,
    )
    t.notMatch(lacks(troubled), /mine/, 'who is in the configuration needs no registry')
    await world.stop()
    await world.start(settings)
    const again = await passing(shift, world.page, (answer) => total(answer) === 60)
    t.equal(again.wholesale_feed_version, before.wholesale_feed_version, 'nor does a restart')
  }
  world.registry.behave('lists')
  world.registry.list(listed.map((one) => ({ ...one, name: `${one.name} by another name` })))
  const named = await passing(shift, world.page, (answer) => lacks(answer) === '')
  t.equal(total(named), 60)

  world.registry.list(listed.slice(0, 1))
  const left = await passing(shift, world.page, (answer) => total(answer) === 40)
  t.equal(lacks(left), '', 'that is a decision, and nothing is missing')
  const told = world.lines.filter(({ registry }) => registry === world.registry.url)
  t.match(told.map(({ level }) => level).slice(0, 1), [40], 'its trouble is one line')
})

test('what a registry says of a configured upstream does not disturb its rows', async (t) => {
  const { clock, shift } = shiftableClock()
  const world = await startScripted(t, { inThreads: true, agents: 2, clock })
  const [mine, other] = world.agents as [Agent, Agent]
  for (const agent of world.agents) agent.offer(rowsOf(agent, 30))
  const entry = ({ url, name }: Agent) => ({ url, name })
  world.registry.list([entry(mine), entry(other)])
  await world.start({ registries: [world.registry.url], statics: [{ id: 'mine', agent: mine }] })
  await passing(shift, world.page, (answer) => total(answer) === 60)
  const calls = mine.calls()
  const answers = await meanwhile(world, async () => {
    // It gets another name while another agent leaves.
    world.registry.list([{ ...entry(mine), name: 'another name' }])
    await passing(shift, world.page, (answer) => total(answer) === 30)
    world.registry.list([entry(other)])
    await passing(shift, world.page, (answer) => total(answer) === 60)
  })
  t.same([...new Set(answers.map(total))].sort(), [30, 60], 'its own rows are there all the time')
  t.ok(mine.calls() >= calls)
})
