import { getEventListeners } from 'node:events'
import { test } from 'tap'
import { createDeadline, pause, within } from '../../src/net/clock.js'
import { createManualClock } from '../support/upstream-clock.js'

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

test('any number wait for one signal by one listener, and each may leave before the others', async (t) => {
  const { clock, next } = createManualClock()
  const controller = new AbortController()
  const { signal } = controller
  const deadlines = Array.from({ length: 50 }, () => createDeadline({ timeoutMs: 60_000, signal, clock }))
  const pauses = Array.from({ length: 50 }, () => pause(clock, 60_000, signal))
  t.equal(getEventListeners(signal, 'abort').length, 1)
  const [left, leftToo, ...stayed] = deadlines
  left?.release()
  left?.release()
  leftToo?.release()
  controller.abort()
  await Promise.all(pauses)
  t.same([left?.why(), leftToo?.why()], [undefined, undefined])
  for (const each of stayed) t.equal(await each.ended, 'aborted')
  for (const each of stayed) each.release()
  t.same(getEventListeners(signal, 'abort'), [])
  t.equal(next(), undefined, 'no timer is left either')
})

test('a signal that all have left can be waited for again', async (t) => {
  const controller = new AbortController()
  const { signal } = controller
  const first = createDeadline({ timeoutMs: 60_000, signal })
  first.release()
  t.same(getEventListeners(signal, 'abort'), [])
  const second = createDeadline({ timeoutMs: 60_000, signal })
  first.release()
  controller.abort()
  t.equal(second.why(), 'aborted')
  second.release()
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
