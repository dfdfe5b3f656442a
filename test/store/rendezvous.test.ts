/** Work spreads evenly over members, and moves little when one comes or goes. */
import { test } from 'tap'
import { createRendezvous } from '../../src/store/replicas/membership.js'

const NAMES = Array.from({ length: 3_000 }, (_, at) => `mirror/https://agent-${at}.example/mcp`)
const members = (count: number) => Array.from({ length: count }, (_, at) => `replica-${at}-${at * 7_919}`)
function owners(of: readonly string[]) {
  const ownerOf = createRendezvous(of)
  return NAMES.map((name) => ownerOf(name))
}

test('every member has its share, within a fifth', async (t) => {
  for (const count of [2, 3, 5, 8]) {
    const shares = new Map<string | undefined, number>()
    for (const owner of owners(members(count))) shares.set(owner, (shares.get(owner) ?? 0) + 1)
    const fair = NAMES.length / count
    for (const share of shares.values()) t.ok(Math.abs(share - fair) < fair / 5, `${share} of ${fair}`)
    t.equal(shares.size, count)
  }
})

test('who comes takes from each, who goes gives to each, and nothing else moves', async (t) => {
  const three = owners(members(3))
  const four = owners(members(4))
  const newcomer = members(4)[3]
  const moved = four.filter((owner, at) => owner !== three[at])
  t.ok(moved.every((owner) => owner === newcomer))
  t.ok(moved.length < NAMES.length / 3, `${moved.length} moved`)
})

test('the order in which members are named says nothing', async (t) => {
  t.same(owners(members(5).reverse()), owners(members(5)))
  t.equal(createRendezvous([])('any'), undefined)
})

test('what a member does not take goes to the next, and nothing else moves', async (t) => {
  const ownerOf = createRendezvous(members(3))
  const [name = ''] = NAMES
  const [first = '', second] = [ownerOf(name), ownerOf(name, [ownerOf(name) ?? ''])]
  t.equal(second, createRendezvous(members(3).filter((one) => one !== first))(name))
})
