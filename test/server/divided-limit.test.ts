/** Processes behind one address let a caller do together what one of them would. */
import { test } from 'tap'
import { createRateLimiter } from '../../src/server/door/admission.js'

/** Calls let through of many, offered to each process in turn over so many seconds. */
function letThrough(processes: number, seconds: number): number {
  const limit = { perSecond: 30, burst: 60, among: () => processes }
  const limiters = Array.from({ length: processes }, () => createRateLimiter(limit))
  let through = 0
  for (let ms = 0; ms < seconds * 1_000; ms += 5) {
    if (limiters[(ms / 5) % processes]?.take('buyer', ms) === 0) through += 1
  }
  return through
}

test('a caller´s rate is divided among the processes, and stays within a tenth of what one gives', async (t) => {
  const alone = letThrough(1, 60)
  for (const processes of [2, 3, 5]) {
    const together = letThrough(processes, 60)
    t.ok(Math.abs(together - alone) <= alone / 10, `${processes} processes: ${together}, one: ${alone}`)
  }
})

test('more processes than a burst has calls still let one through each', async (t) => {
  const { take } = createRateLimiter({ perSecond: 1, burst: 2, among: () => 5 })
  t.equal(take('buyer', 0), 0)
  t.ok(take('buyer', 0) > 0)
})
