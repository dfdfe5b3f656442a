import fc from 'fast-check'
import { test } from 'tap'
import { createLayout } from '../../sandbox/layout.js'
import { createMarket } from '../../sandbox/market.js'
import type { AgentId } from '../../sandbox/parties.js'
import { proven } from '../support/proven.js'
import { open, rowsOf, walk } from './support/world.js'

test('two sandboxes of one seed are the same to the byte; another seed is another market', async (t) => {
  const [one, two, other] = [await open(t), await open(t), await open(t, { seed: 2 })]
  const bytes = async (sandbox: typeof one) => JSON.stringify(rowsOf(await walk(sandbox, 'northwind')))
  const version = async (sandbox: typeof one) =>
    (await walk(sandbox, 'harborlight'))[0]?.wholesale_feed_version
  t.equal(await bytes(one), await bytes(two))
  t.equal(await version(one), await version(two))
  t.not(await bytes(one), await bytes(other))
  t.same(Object.keys(one.hosts), Object.keys(two.hosts))
})

test('a lane counts every index it holds, and both ways of reading it agree', (t) => {
  const agents: AgentId[] = ['northwind', 'meridian', 'harborlight', 'oldmill', 'gullwing']
  proven(
    t,
    100,
    fc.property(
      fc.integer({ min: 24, max: 30_000 }),
      fc.constantFrom(...agents),
      fc.nat(),
      (size, agent, pick) => {
        const layout = createLayout(size)
        const lane = layout.lane((slot) => slot.offeredBy.includes(agent))
        const index = pick % size
        const offered = layout.slotAt(index).offeredBy.includes(agent)
        const position = lane.positionOf(index)
        if (offered !== (position !== undefined)) return false
        if (position !== undefined && (position >= lane.count || lane.at(position) !== index)) return false
        return lane.count === 0 || lane.positionOf(lane.at(pick % lane.count)) === pick % lane.count
      },
    ),
  )
  t.end()
})

test('a signal is found by its local id, and only by it', (t) => {
  const market = createMarket({ size: 1_000_000, seed: 7 })
  for (const index of [0, 23, 4_711, 11_999, 12_000, 999_999]) {
    const { id } = market.signal(index)
    t.equal(market.find(id)?.index, index)
    t.equal(market.find(`x${id}`), undefined)
  }
  t.equal(market.find('no_such_signal_zzzzzz'), undefined)
  t.equal(market.find(''), undefined)
  t.end()
})

test('names do not repeat in the default market', (t) => {
  const market = createMarket({ size: 2_400, seed: 1 })
  const names = new Set(Array.from({ length: market.size }, (_, index) => market.signal(index).name))
  t.equal(names.size, market.size)
  t.end()
})
