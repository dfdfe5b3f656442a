/** What draining.test.ts shows, told in the other order, and failing in the other way. */
import { test } from 'tap'
import { until } from '../support/until.js'
import { assertFaultIsTold, LONG, serving } from './support/stopping.js'

test('SIGTERM after SIGINT ends it at once', async (t) => {
  const { process, finished, ready } = await serving(t, LONG)
  process.kill('SIGINT')
  await until(ready, (answer) => answer?.status !== 200)
  process.kill('SIGTERM')
  await finished
  t.equal(process.signalCode, 'SIGTERM')
})

test('a rejection that nothing catches is told in one line, and ends the process in order', (t) =>
  assertFaultIsTold(t, "Promise.reject(new Error('Bearer planted-secret-1'))"))
