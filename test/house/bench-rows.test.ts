import { test } from 'tap'
import { besides, lineOf } from '../../bench/report.js'

test('rows of two runs of the bench stand side by side, also one that only one of them has', async (t) => {
  const bar = { atMost: 1 }
  const before = [
    '== feed',
    '100000 signals from 20 upstreams',
    lineOf({ what: 'a build in which nothing changed', measured: 8, unit: 'ms' }),
    lineOf({ what: `first page, ${'by many criteria '.repeat(6)}at once`, measured: 2, unit: 'ms', bar }),
    lineOf({ what: 'rows copied', measured: 1_234 }),
    lineOf({ what: 'gone since', measured: 1 }),
    '  of them in its tables         1936 ms, authorized',
  ]
  const limit = { is: 0.5, of: 'the disk' }
  const after = [
    lineOf({ what: 'a build in which nothing changed', measured: 4, unit: 'ms' }),
    lineOf({
      what: `first page, ${'by many criteria '.repeat(6)}at once`,
      measured: 3,
      unit: 'ms',
      bar,
      limit,
    }),
    lineOf({ what: 'rows copied', measured: 1_234 }),
    lineOf({ what: 'new', measured: 0.5, unit: 'x' }),
    '  of them in its tables         968 ms, authorized',
    'definitions a second      1,256,987',
  ]
  const [, , ...rows] = besides(before.join('\n'), after.join('\n')).split('\n')
  t.same(rows, [
    '| a build in which nothing changed | 8.00 ms | 4.00 ms | 0.50 |',
    `| first page, ${'by many criteria '.repeat(6)}at once | 2.00 ms | 3.00 ms | 1.50 |`,
    '| rows copied | 1234 | 1234 | 1.00 |',
    '| gone since | 1.00 |  |  |',
    '| of them in its tables | 1936 ms | 968 ms | 0.50 |',
    '| new |  | 0.50 x |  |',
    '| definitions a second |  | 1256987 |  |',
  ])
})
