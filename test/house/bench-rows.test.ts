import { test } from 'tap'
import { createLedger, inTurns, SIDES, tableOf } from '../../bench/beside/ledger.js'

/** The rows of two sides that measured these values, round by round. */
function rowsOf(values: Record<string, { before: number[]; after: number[] }>) {
  const ledger = createLedger(() => {})
  for (const [what, of] of Object.entries(values))
    for (const side of SIDES) for (const value of of[side]) ledger.note(side, what, 'ms', value)
  return ledger.compared()
}

test('a build is worse or better where every round says so, and clearly', async (t) => {
  const rows = rowsOf({
    'twice as slow': { before: [1, 2, 3], after: [2, 4, 6] },
    'half of it': { before: [2, 4, 6], after: [1, 2, 3] },
    'one round says otherwise': { before: [1, 1, 1], after: [2, 2, 0.9] },
    'a hair slower': { before: [100, 100, 100], after: [104, 104, 101] },
    'nothing twice': { before: [0, 0], after: [0, 0] },
    'only one has it': { before: [], after: [1] },
  })
  t.same(
    rows.map(({ what, verdict, ratio, low, high }) => [what, verdict, ratio, low, high]),
    [
      ['twice as slow', 'worse', 2, 2, 2],
      ['half of it', 'better', 0.5, 0.5, 0.5],
      ['one round says otherwise', 'as good', 2, 0.9, 2],
      ['a hair slower', 'as good', 1.04, 1.01, 1.04],
      ['nothing twice', 'as good', 1, 1, 1],
    ],
  )
  const [, , first] = tableOf(rows).split('\n')
  t.equal(first, '| twice as slow | 2.00 ms | 4.00 ms | 2.00 (2.00 to 2.00) | worse |')
})

test('each build is as often first as second', async (t) => {
  const order: string[] = []
  await inTurns(4, async (side, round) => void order.push(`${round} ${side}`))
  t.same(order, [
    ...['0 before', '0 after', '1 after', '1 before'],
    ...['2 before', '2 after', '3 after', '3 before'],
  ])
})
