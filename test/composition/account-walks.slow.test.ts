/** Slow, because an account whose upstream hangs is waited for over and over; account-walks.test.ts has the rest. */
import { test } from 'tap'
import { DEAL, lacks, startPassing, startScripted, until } from './support/scripted.js'
import { type Agent, ownRow } from './support/scripted-agents.js'
import { shiftableClock } from './support/shiftable-clock.js'

const rows = (agent: Agent, cpm: number) => Array.from({ length: 30 }, (_, at) => ownRow(agent.url, at, cpm))

test('a walk stays in the scope in which it began, while nobody knows what the account is offered, and when it turns out', async (t) => {
  const { clock, shift } = shiftableClock()
  const world = await startScripted(t, { agents: 2, clock })
  const [north, south] = world.agents as [Agent, Agent]
  for (const agent of world.agents) agent.offer(rows(agent, 2))
  const statics = [north, south].map((agent) => ({ id: agent.name, agent }))
  const page = (cursor?: string) =>
    world.page({ ...DEAL, pagination: { max_results: 20, ...(cursor && { cursor }) } })

  north.behave('hangs', 'gold')
  await startPassing(world, { statics, deals: [north], pace: { timeoutMs: 60_000 } }, shift)
  const first = await page()
  t.equal(first.cache_scope, 'account')
  const second = await page(first.pagination?.cursor)
  const told = ({ cache_scope, wholesale_feed_version, pricing_version }: typeof first) => [
    cache_scope,
    wholesale_feed_version,
    pricing_version,
  ]
  t.same(told(second), told(first), 'while nobody knows what the account is offered')
  t.equal(lacks(second), lacks(first), 'each page names it')

  north.behave('answers', 'gold')
  await until(page, (answer) => answer.cache_scope === 'public') // the rate card, as it turns out
  const third = await page(second.pagination?.cursor)
  t.same(told(third), told(first), 'when it turns out that the rate card applies')
  t.match(lacks(third), /a0 .*this account/)
})
