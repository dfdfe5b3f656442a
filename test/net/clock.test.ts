import { mock } from 'node:test'
import { test } from 'tap'
import { systemClock } from '../../src/net/clock.js'

const DAY_MS = 86_400_000

test('a timer for longer than a timeout of the platform can be fires when it is due, and can be cancelled', (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const fired: string[] = []
  systemClock.after(60 * DAY_MS, () => fired.push('sixty days'))
  const cancel = systemClock.after(61 * DAY_MS, () => fired.push('never'))
  const days = (count: number) => {
    for (let day = 0; day < count; day += 1) mock.timers.tick(DAY_MS)
  }
  days(59)
  t.same(fired, [], 'a timer that the platform cannot hold would have fired after 24.8 days')
  cancel()
  days(5)
  t.same(fired, ['sixty days'])
  t.end()
})
