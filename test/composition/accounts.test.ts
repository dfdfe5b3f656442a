import { randomUUID } from 'node:crypto'
import { test } from 'tap'
import { DEAL, lacks, startScripted, total, until } from './support/scripted.js'
import { type Agent, ownRow, providerRow, type Row } from './support/scripted-agents.js'
import { shiftableClock } from './support/shiftable-clock.js'

const rows = (agent: Agent, cpm: number, count = 5): Row[] =>
  Array.from({ length: count }, (_, at) => ownRow(agent.url, at, cpm))

type Prices = { signals?: { pricing_options?: object[] }[] }
const prices = ({ signals = [] }: Prices) =>
  signals.map(({ pricing_options: [option] = [] }) => (option as { cpm: number } | undefined)?.cpm)
const names = (agents: readonly Agent[]) => agents.map((agent) => ({ id: agent.name, agent }))

async function withDeal(t: Parameters<typeof startScripted>[0], clock = shiftableClock()) {
  const world = await startScripted(t, { agents: 2, clock: clock.clock })
  const [north, south] = world.agents as [Agent, Agent]
  for (const agent of world.agents) agent.offer(rows(agent, 4))
  north.offerGold(rows(north, 1))
  const settings = { statics: names(world.agents), deals: [north] }
  return { world, north, south, settings, clock }
}

test('an account that has not been read is never told that the rate card is its own', async (t) => {
  const { world, north, settings, clock } = await withDeal(t)
  north.behave('hangs', 'gold')
  await world.start({ ...settings, openAfterMs: 5_000 }, false)
  await until(
    async () => world.federation().statuses(),
    (all) => all.every(({ state }) => state === 'fresh'),
  )
  clock.shift(5_000)
  await world.federation().ready
  const open = await until(world.page, (answer) => total(answer) === 10)
  t.equal(lacks(open), '', 'readers without the account miss nothing')
  const unread = await world.page(DEAL)
  t.equal(unread.cache_scope, 'account')
  t.equal(total(unread), 10)
  t.same(
    (unread.incomplete ?? []).map(({ scope }) => scope),
    ['wholesale_feed', 'pricing'],
  )
  t.match(lacks(unread), /a0 .*this account/)
  const detail = await world.call('get_signals', { ...DEAL, signal_refs: [unread.signals?.[0]?.signal_ref] })
  t.match(lacks(detail), /a0 .*this account/, 'a lookup says so too')

  north.behave('answers', 'gold')
  const read = await until(
    () => world.page(DEAL),
    (answer) => prices(answer).includes(1),
  )
  t.equal(read.cache_scope, 'account')
  t.equal(lacks(read), '')
})

test('over reloads and restarts, its upstream down, an account keeps its prices, its scope and its options', async (t) => {
  const { world, north, south, settings } = await withDeal(t)
  await world.start(settings)
  const read = await until(
    () => world.page(DEAL),
    (answer) => prices(answer).includes(1),
  )
  const same = (answer: typeof read, when: string) => {
    t.equal(answer.cache_scope, 'account', when)
    t.equal(answer.pricing_version, read.pricing_version, when)
  }
  const scopes = new Set<unknown>()
  for (let n = 1; n <= 10; n += 1) {
    world.apply({ ...settings, pace: { timeoutMs: 1_000 + n } })
    south.offer(rows(south, 4 + n)) // the public feed moves all the time
    scopes.add((await world.page(DEAL)).cache_scope)
  }
  south.offer(rows(south, 4))
  t.same([...scopes], ['account'])
  same(
    await until(
      () => world.page(DEAL),
      (one) => one.pricing_version === read.pricing_version,
    ),
    'reloads',
  )

  north.behave('hangs')
  await world.stop()
  await world.start({ ...settings, pace: { timeoutMs: 1_500 } })
  same(await world.page(DEAL), 'a restart')
  const signal = read.signals?.find((each) => JSON.stringify(each).includes('"cpm":1'))
  const option = signal?.pricing_options?.[0]?.pricing_option_id
  north.behave('answers')
  const activated = await world.call('activate_signal', {
    ...{ ...DEAL, idempotency_key: randomUUID(), pricing_option_id: option },
    signal_agent_segment_id: signal?.signal_agent_segment_id,
    destinations: [{ type: 'platform', platform: 'the-trade-desk' }],
  })
  t.not(activated.adcp_error?.code, 'REFERENCE_NOT_FOUND', 'what was negotiated can be activated')
})

test('what a hanging upstream offered to an account leaves with its cap, and is named', async (t) => {
  const { world, north, settings, clock } = await withDeal(t)
  await world.start(settings)
  await until(
    () => world.page(DEAL),
    (answer) => prices(answer).includes(1),
  )
  north.behave('fails', 'gold')
  const old = await until(
    () => world.page(DEAL),
    (answer) => lacks(answer) !== '',
  )
  t.match(lacks(old), /What a0 offers to this account is as it was last read/)
  t.ok(prices(old).includes(1))
  clock.shift(3_600_001)
  const left = await until(
    () => world.page(DEAL),
    (answer) => !prices(answer).includes(1),
  )
  t.equal(left.cache_scope, 'account')
  t.match(lacks(left), /prices of a0 for this account/)
})

test('a provider that only an account is offered is looked at, and one slow account delays nobody', async (t) => {
  const { world, north, south, settings } = await withDeal(t)
  north.offerGold([...rows(north, 1), providerRow('gamma.example', 1, 1)])
  await world.start({ ...settings, pace: { timeoutMs: 120_000 } }) // nobody gives up waiting for it
  const read = await until(
    () => world.page(DEAL),
    (answer) => total(answer) === 11,
  )
  t.equal(lacks(read), '')
  t.equal(total(await world.page()), 10)

  north.behave('hangs', 'gold')
  south.offer(rows(south, 9))
  await until(world.page, (answer) => prices(answer).includes(9))
})
