import { test } from 'tap'
import { lacks, startScripted, total, until } from './support/scripted.js'
import { type Agent, ownRow, providerRow } from './support/scripted-agents.js'
import { shiftableClock } from './support/shiftable-clock.js'

const names = (agents: readonly Agent[]) => agents.map((agent) => ({ id: agent.name, agent }))

test('a feed that opens with less than there is says what it waits for', async (t) => {
  const { clock, shift } = shiftableClock()
  const world = await startScripted(t, { agents: 2, clock })
  const [quick, slow] = world.agents as [Agent, Agent]
  const own = Array.from({ length: 12 }, (_, at) => ownRow(quick.url, at, 2))
  const provided = Array.from({ length: 13 }, (_, at) => providerRow('alpha.example', at, 2))
  quick.offer([...own, ...provided])
  slow.offer([ownRow(slow.url, 0, 2)])
  slow.behave('hangs')
  world.providers.behave('alpha.example', 'hangs')
  await world.start({ statics: names(world.agents), pace: { timeoutMs: 120_000 } }, false)
  await until(
    async () => world.federation().statuses(),
    (all) => all.some(({ state }) => state === 'fresh'),
  )
  shift(60_000)
  await world.federation().ready

  const first = await world.page()
  t.equal(total(first), 12)
  t.match(
    lacks(first),
    /Signals of a0 wait for the files of their providers, which are being read: alpha\.example/,
  )
  t.match(lacks(first), /a1 has not been read yet; its signals are missing/)

  world.providers.behave('alpha.example', 'serves')
  const more = await until(world.page, (answer) => total(answer) === 25)
  t.notMatch(lacks(more), /alpha/)
  slow.behave('answers')
  const whole = await until(world.page, (answer) => total(answer) === 26)
  t.equal(lacks(whole), '')
})

test('a walk that began on a feed with less names what its pages lack, to the last', async (t) => {
  const world = await startScripted(t, { agents: 2 })
  const [quick, slow] = world.agents as [Agent, Agent]
  quick.offer(Array.from({ length: 120 }, (_, at) => ownRow(quick.url, at, 2)))
  slow.offer([ownRow(slow.url, 0, 2)])
  slow.behave('fails')
  await world.start({ statics: names(world.agents) })
  const first = await until(world.page, (answer) => total(answer) === 120)
  slow.behave('answers')
  await until(world.page, (answer) => total(answer) === 121)
  const { cursor } = first.pagination ?? {}
  const later = await world.page({ pagination: { cursor } })
  t.equal(total(later), 120, 'the walk stays on its snapshot')
  t.match(lacks(later), /a1 was read after this was put together; its signals are missing/)
})

test('rows that wait for the file of a new provider are named, in answers to briefs too', async (t) => {
  const world = await startScripted(t, { agents: 1 })
  const [agent] = world.agents as [Agent]
  const own = Array.from({ length: 12 }, (_, at) => ownRow(agent.url, at, 2))
  agent.offer(own)
  await world.start({ statics: names(world.agents) })
  t.equal(lacks(await world.page()), '')
  world.providers.behave('alpha.example', 'hangs')
  agent.offer([...own, providerRow('alpha.example', 1, 2)])
  const waiting = await until(world.page, (answer) => lacks(answer) !== '')
  t.match(lacks(waiting), /alpha\.example/)
  t.equal(total(waiting), 12)
  const question = { signal_spec: 'somebody who did something' }
  t.match(lacks(await world.call('get_signals', question)), /alpha\.example/)
  world.providers.behave('alpha.example', 'serves')
  await until(world.page, (answer) => total(answer) === 13 && lacks(answer) === '')
})
