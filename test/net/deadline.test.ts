import { getEventListeners } from 'node:events'
import { test } from 'tap'
import { createDeadline, within } from '../../src/net/clock.js'

const never = new Promise<never>(() => {})

test('time, or the caller, ends a wait; what was waited for goes on', async (t) => {
  t.equal(await within(never, { timeoutMs: 1 }, (end) => end), 'timeout')
  const controller = new AbortController()
  const waiting = within(never, { timeoutMs: 60_000, signal: controller.signal }, (end) => end)
  controller.abort()
  t.equal(await waiting, 'aborted')
  t.equal(await within(never, { timeoutMs: 60_000, signal: AbortSignal.abort() }, (end) => end), 'aborted')
})

test('what comes in time comes, a rejection too, and nothing is left behind', async (t) => {
  const { signal } = new AbortController()
  t.equal(await within(Promise.resolve(7), { timeoutMs: 60_000, signal }, () => 0), 7)
  await t.rejects(
    within(Promise.reject(new Error('x')), { timeoutMs: 60_000, signal }, () => 0),
    /x/,
  )
  t.same(getEventListeners(signal, 'abort'), [])
})

test('a deadline says what ended it, once', async (t) => {
  const controller = new AbortController()
  const deadline = createDeadline({ timeoutMs: 1, signal: controller.signal })
  t.equal(deadline.why(), undefined)
  t.equal(await deadline.ended, 'timeout')
  t.ok(deadline.signal().aborted)
  controller.abort()
  t.equal(deadline.why(), 'timeout')
})
