import { test } from 'tap'
import { DEAL, lacks, startScripted, total, until } from './support/scripted.js'
import { type Agent, ownRow } from './support/scripted-agents.js'
import { shiftableClock } from './support/shiftable-clock.js'
import { watchThreads } from './support/threads.js'

const threads = watchThreads()
const DROP_MS = 3_600_000

const rows = (agent: Agent, cpm: number) => Array.from({ length: 5 }, (_, at) => ownRow(agent.url, at, cpm))

test('prices that went with a long outage are named until a feed that has them again is there', async (t) => {
  const { clock, shift } = shiftableClock()
  const world = await startScripted(t, { inThreads: true, agents: 1, clock })
  const [agent] = world.agents as [Agent]
  agent.offer(rows(agent, 2))
  await world.start({ statics: [{ id: 'a', agent }], pace: { dropAfterMs: DROP_MS } })
  const priced = ({ signals = [] }: Awaited<ReturnType<typeof world.page>>) =>
    signals.filter(({ pricing_options: options }) => options).length
  await until(world.page, (answer) => priced(answer) === 5)

  agent.offer(rows(agent, 2).map(({ pricing_options: _, ...row }) => row))
  agent.lack(['pricing'])
  await until(world.page, (answer) => /those that it last gave stand/.test(lacks(answer)))
  shift(DROP_MS + 1)
  const without = await until(world.page, (answer) => total(answer) === 5 && priced(answer) === 0)
  t.match(without.incomplete, [{ scope: 'pricing', description: /a cannot give its prices/ }])

  const sent = threads.holdNext('build-worker')
  agent.offer(rows(agent, 2))
  agent.lack([])
  const build = await sent
  await until(
    async () => world.federation().statuses()[0]?.outages,
    (outages) => outages === undefined,
  )
  const between = await world.page()
  t.equal(priced(between), 0)
  t.match(between.incomplete, [
    {
      scope: 'pricing',
      description: 'The prices of a were read after this was put together; they are missing.',
    },
  ])
  build()
  const after = await until(world.page, (answer) => priced(answer) === 5)
  t.equal(lacks(after), '')
})

test('another id names nobody who is there, and unnames nobody who is not', async (t) => {
  const world = await startScripted(t, { inThreads: true, agents: 2 })
  const [there, unread] = world.agents as [Agent, Agent]
  for (const agent of world.agents) agent.offer(rows(agent, 2))
  unread.offerGold(rows(unread, 1))
  unread.behave('fails', 'gold')
  const settings = (suffix: string) => ({
    statics: [there, unread].map((agent) => ({ id: `${agent.name}${suffix}`, agent })),
    deals: [unread],
    pace: { refreshMs: 60_000 }, // nothing but the reload moves the world
  })
  await world.start(settings(''))
  await until(world.page, (answer) => total(answer) === 10)
  t.match(lacks(await world.page(DEAL)), /a1 .*this account/)

  const sent = threads.holdNext('build-worker')
  world.apply(settings('-renamed'))
  const build = await sent
  t.equal(lacks(await world.page()), '')
  const account = await world.page(DEAL)
  t.equal(account.cache_scope, 'account')
  t.match(lacks(account), /a1-renamed .*this account/)
  build()
  await until(world.page, ({ signals = [] }) => JSON.stringify(signals).includes('a0-renamed'))
})
