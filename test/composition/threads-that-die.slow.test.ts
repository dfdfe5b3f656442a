import { test } from 'tap'
import {
  lacks,
  passing,
  type Scripted,
  startPassing,
  startScripted,
  total,
  until,
} from './support/scripted.js'
import { type Agent, ownRow } from './support/scripted-agents.js'
import { shiftableClock } from './support/shiftable-clock.js'
import { watchThreads } from './support/threads.js'

const threads = watchThreads()

const rows = (agent: Agent, count: number, name = 'Somebody') =>
  Array.from({ length: count }, (_, at) => ({ ...ownRow(agent.url, at, 2), name: `${name} ${at}` }))

async function started(t: Parameters<typeof startScripted>[0]) {
  const world = await startScripted(t, { inThreads: true, agents: 1 })
  const [agent] = world.agents as [Agent]
  agent.offer(rows(agent, 5))
  await world.start({ statics: [{ id: 'a', agent }] })
  return { world, agent }
}

const found = async (world: Scripted, words: string) => {
  const { signals = [] } = await world.call('get_signals', { signal_spec: words })
  return signals.map(({ name }) => name)
}

test('a build that failed is tried again although nothing else moves', async (t) => {
  const { world, agent } = await started(t)
  const sent = threads.holdNext('build-worker')
  agent.offer(rows(agent, 7))
  await sent
  t.equal(total(await world.page()), 5, 'the last feed stays')
  await threads.end('build-worker')
  const whole = await until(world.page, (answer) => total(answer) === 7)
  t.equal(lacks(whole), '')
  const told = world.lines.filter(({ msg }) => String(msg).includes('a snapshot could not be built'))
  t.equal(told.length, 1)
})

test('a snapshot that came while the index of another could not be built is searched', async (t) => {
  const { clock, shift } = shiftableClock({ stands: true })
  const world = await startScripted(t, { inThreads: true, agents: 1, clock })
  const [agent] = world.agents as [Agent]
  agent.offer(rows(agent, 5))
  await startPassing(world, { statics: [{ id: 'a', agent }], pace: { refreshMs: 200 } }, shift)
  let isSent = false
  void threads.holdNext('search-index').then(() => {
    isSent = true
  })
  agent.offer(rows(agent, 5, 'Astronomers'))
  await passing(
    shift,
    async () => isSent,
    (is) => is,
  )
  agent.offer(rows(agent, 5, 'Beekeepers'))
  await passing(shift, world.page, ({ signals = [] }) => signals.some(({ name }) => name === 'Beekeepers 0'))
  await threads.end('search-index') // and time stands: nothing is tried again later
  t.match(await found(world, 'beekeepers'), [/Beekeepers/])
})

test('threads that die while nobody needs them are replaced', async (t) => {
  const { world, agent } = await started(t)
  await until(
    () => found(world, 'somebody'),
    (names) => names.length > 0,
  )
  await Promise.all([threads.end('build-worker'), threads.end('search-index')])
  agent.offer(rows(agent, 6, 'Gardeners'))
  await until(world.page, (answer) => total(answer) === 6)
  await until(
    () => found(world, 'gardeners'),
    (names) => names.some((name) => String(name).startsWith('Gardeners')),
  )
})
