import { test } from 'tap'
import { createDoubt } from '../../src/upstreams/agent/agent.js'
import { startMcpAgent } from '../support/upstream-agent.js'
import { createManualClock } from '../support/upstream-clock.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { configOf, openUpstreams, rows, until } from '../support/upstream-world.js'

const LATER = 30_000

test('a loss of most rows is believed when a second look, later, sees no more', (t) => {
  let now = 0
  const doubt = createDoubt({ refreshMs: LATER, now: () => now })
  const looks = (before: number, ...seen: [after: number, rows: number][]) =>
    seen.map(([after, count]) => {
      now += after
      return doubt.about(before, count) !== undefined
    })
  t.same(looks(513, [0, 0], [LATER, 0]), [true, false], 'empty, and empty again')
  t.same(looks(513, [0, 0], [10, 0], [LATER, 0]), [true, true, false], 'too soon is no second look')
  t.same(looks(513, [0, 0], [LATER, 100], [LATER, 513]), [true, true, false], 'it was loading')
  t.same(looks(513, [0, 9], [LATER, 12], [LATER, 12]), [true, true, false], 'it stopped growing')
  t.same(looks(513, [0, 0], [LATER, 400], [LATER, 0]), [true, false, true], 'back, and gone: doubted anew')
  t.same(looks(10, [0, 5]), [false], 'half is not most')
  t.same(looks(9, [0, 1]), [false], 'a few come and go')
  t.same(looks(1, [0, 0]), [true], 'nothing is never few')
  t.end()
})

test('an agent that answers before its data is loaded takes no row away, and is asked again soon', async (t) => {
  const feed = wholesaleAgent(rows(50), 'v1')
  const agent = await startMcpAgent(feed.handle)
  t.teardown(agent.close)
  const time = createManualClock()
  const config = configOf([{ id: 'a', url: agent.url }], { refreshMs: 300_000 })
  const { upstreams } = await openUpstreams(t, config, { clock: time.clock })
  await upstreams.start()
  const count = () => upstreams.slices()[0]?.rows.count
  const status = () => upstreams.statuses()[0]
  await until('a slice', () => count() === 50)

  feed.publish([], 'v0')
  time.advance(400_000)
  await until('the doubt', () => status()?.problem?.reason === 'shrunken_feed')
  t.equal(count(), 50)
  t.match(status(), { state: 'stale', problem: { message: '0 of 50 rows are left' } })
  t.equal(
    (status()?.nextAttemptAt ?? 0) - time.clock.now(),
    LATER,
    'the second look does not wait for a refresh',
  )
  feed.publish(rows(50), 'v1')
  time.advance(LATER)
  await until('all is well', () => status()?.state === 'fresh')
  t.equal(count(), 50)

  feed.publish(rows(3), 'v2')
  time.advance(400_000)
  await until('the doubt', () => status()?.problem?.reason === 'shrunken_feed')
  time.advance(LATER)
  await until('its word', () => count() === 3)
  t.equal(status()?.state, 'fresh')
})
