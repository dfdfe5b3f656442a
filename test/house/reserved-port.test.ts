import { test } from 'tap'

test('a port is given once, also to whom begins to look at the same place', async (t) => {
  const [one, other]: typeof import('../support/reserved-port.js')[] = await Promise.all(
    ['one', 'other'].map((who) => import(`../support/reserved-port.js?${who}`)),
  )
  const given = await Promise.all(
    Array.from({ length: 20 }, (_, at) => (at % 2 ? one : other)?.reservedPort()),
  )
  t.equal(new Set(given).size, given.length, given.join())
})
