import fc from 'fast-check'
import { test } from 'tap'
import { fairShares } from '../../src/composition/sources.js'
import { proven } from '../support/proven.js'

test('the short lists are whole, the long ones equally cut', async (t) => {
  const list = (name: string, length: number) => Array.from({ length }, (_, at) => `${name}${at}`)
  const lengths = (given: readonly (readonly string[])[], most: number) =>
    fairShares(given, most).map(({ length }) => length)
  t.same(lengths([list('a', 50_000), list('b', 60), list('c', 3)], 100), [48, 48, 3])
  t.same(lengths([list('a', 2), list('b', 3)], 100), [2, 3])
  t.same(lengths([list('a', 9), list('b', 9), list('c', 9)], 2), [1, 1, 0])
})

test('there is never more than room, and nobody with no more than an equal share loses anything', async (t) => {
  const lists = fc.array(fc.array(fc.nat(), { maxLength: 40 }), { maxLength: 12 })
  proven(
    t,
    300,
    fc.property(lists, fc.nat({ max: 120 }), (given, most) => {
      const shares = fairShares(given, most)
      const count = shares.reduce((sum, { length }) => sum + length, 0)
      if (count > most) throw new Error(`${count} of ${most}`)
      for (const [at, share] of shares.entries()) {
        const list = given[at] as number[]
        if (share.some((item, place) => item !== list[place])) throw new Error('not its first items')
        if (list.length * given.length <= most && share.length < list.length) throw new Error('cut')
      }
    }),
  )
})
