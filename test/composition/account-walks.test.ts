import { type Test, test } from 'tap'
import { DEAL, startScripted, until } from './support/scripted.js'
import { type Agent, ownRow } from './support/scripted-agents.js'

const rows = (agent: Agent, cpm: number) => Array.from({ length: 30 }, (_, at) => ownRow(agent.url, at, cpm))

/** Two agents, at the first of which the reader's account has prices of its own until it is one of the second instead. */
async function withDeal(t: Test) {
  const world = await startScripted(t, { agents: 2 })
  const [north, south] = world.agents as [Agent, Agent]
  const statics = world.agents.map((agent) => ({ id: agent.name, agent }))
  for (const agent of world.agents) agent.offer(rows(agent, 2))
  north.offerGold(rows(north, 1))
  await world.start({ statics, deals: [north] })
  return { world, south, repoint: () => world.apply({ statics, deals: [south] }) }
}

test('a walk stays in the scope in which it began when the account is priced apart meanwhile', async (t) => {
  const world = await startScripted(t, { agents: 2 })
  const [north] = world.agents as [Agent]
  for (const agent of world.agents) agent.offer(rows(agent, 2))
  await world.start({ statics: world.agents.map((agent) => ({ id: agent.name, agent })), deals: [north] })
  const page = (cursor?: string) =>
    world.page({ ...DEAL, pagination: { max_results: 20, ...(cursor && { cursor }) } })
  const told = ({
    cache_scope,
    wholesale_feed_version,
    pricing_version,
  }: Awaited<ReturnType<typeof page>>) => [cache_scope, wholesale_feed_version, pricing_version]
  const first = await until(page, (answer) => answer.cache_scope === 'public')
  north.offerGold(rows(north, 1))
  await until(page, (answer) => answer.cache_scope === 'account')
  t.same(told(await page(first.pagination?.cursor)), told(first))
})

test('after a reload that gives an account to somebody else, no page shows the prices of the one before', async (t) => {
  const { world, south, repoint } = await withDeal(t)
  const page = (cursor?: string) =>
    world.page({ ...DEAL, pagination: { max_results: 20, ...(cursor && { cursor }) } })
  const isNorths = (answer: Awaited<ReturnType<typeof page>>) => /"cpm":1,/.test(JSON.stringify(answer))
  const first = await until(page, isNorths)
  south.behave('hangs', 'gold')
  repoint()
  for (const cursor of [undefined, first.pagination?.cursor]) {
    const seen = await page(cursor)
    t.notOk(isNorths(seen))
    t.not(seen.pricing_version, first.pricing_version)
    t.match(seen.incomplete, [{ scope: 'wholesale_feed' }, { scope: 'pricing' }])
  }
})

test('after such a reload, neither the next question nor further pages of one before show those prices', async (t) => {
  const { world, repoint } = await withDeal(t)
  const ask = (cursor?: string) =>
    world.call('get_signals', {
      ...{ ...DEAL, signal_spec: 'somebody who did something' },
      pagination: { max_results: 20, ...(cursor && { cursor }) },
    })
  const isNorths = (answer: Awaited<ReturnType<typeof ask>>) => /"cpm":1,/.test(JSON.stringify(answer))
  const first = await until(ask.bind(undefined, undefined), isNorths)
  t.ok(first.pagination?.cursor)
  repoint()
  t.match(await ask(first.pagination?.cursor), { adcp_error: { field: 'pagination.cursor' } })
  t.notOk(isNorths(await ask()))
})

test('after such a reload, what only a question found for the account before is not looked up', async (t) => {
  const world = await startScripted(t, { agents: 1 })
  const [north] = world.agents as [Agent]
  const settings = { statics: [{ id: 'north', agent: north }], deals: [north] }
  north.offer(rows(north, 2))
  north.offerGold(rows(north, 1))
  await world.start(settings)
  await until(
    () => world.page(DEAL),
    (answer) => answer.cache_scope === 'account',
  )
  const { signal_ref } = ownRow(north.url, 30, 777)
  north.quietly(() => north.offerGold([...rows(north, 1), ownRow(north.url, 30, 777)])) // in answers to questions only
  const ask = (more: object) => world.call('get_signals', { ...DEAL, ...more })
  const isFound = (answer: Awaited<ReturnType<typeof ask>>) => /"cpm":777,/.test(JSON.stringify(answer))
  t.ok(isFound(await ask({ signal_spec: 'somebody who did something', pagination: { max_results: 50 } })))
  const look = () => ask({ signal_refs: [signal_ref] })
  t.ok(isFound(await look()))
  world.apply({ ...settings, dealAs: 'silver' })
  t.notOk(isFound(await look()))
  world.apply(settings)
  t.ok(isFound(await look()), 'the account before has it again')
})
