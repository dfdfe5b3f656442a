import { test } from 'tap'
import { inOwnTurns, inTurns } from '../../src/process/portion-turns.js'
import type { InPortions } from '../../src/process/portions.js'
import { countTurns } from '../support/turns.js'
import { createWork, MOST_STEPS, turns } from './support/watched-work.js'

test('work in portions ends at its next stop when nobody wants it, and lets go of what it holds', async (t) => {
  const { told, work } = createWork()
  const abort = new AbortController()
  const result = inTurns(work(MOST_STEPS), abort.signal)
  await turns(5)
  abort.abort(new Error('gone'))
  await t.rejects(result, { message: 'gone' })
  t.match(told, { begun: 1, released: 1 })
  t.ok(told.steps > 0 && told.steps < 10, `${told.steps} steps`)
  const early = inTurns(work(MOST_STEPS), AbortSignal.abort(new Error('never wanted')))
  await t.rejects(early, { message: 'never wanted' })
  t.equal(told.begun, 1, 'it does not begin')
  t.equal(await inTurns(work(3), new AbortController().signal), 3)
})

test('works that are under way take turns: one portion in each turn of the loop', async (t) => {
  const portions: { work: number; turn: number }[] = []
  const counted = countTurns()
  function* worked(work: number): InPortions<number> {
    for (let step = 0; step < 4; step += 1) {
      portions.push({ work, turn: counted.soFar() })
      yield
    }
    return work
  }
  t.same(await Promise.all([0, 1, 2].map((work) => inTurns(worked(work)))), [0, 1, 2])
  counted.stop()
  t.equal(new Set(portions.map((one) => one.turn)).size, 12)
  t.same(
    portions.map(({ work }) => work),
    [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2],
  )
})

test('a question has a portion a turn, however much work of our own is under way', async (t) => {
  const own = Array.from({ length: 20 }, createWork)
  const ended = own.map(({ work }) => inOwnTurns(work(100)))
  await turns(3)
  const question = createWork()
  const before = own.reduce((sum, { told }) => sum + told.steps, 0)
  await inTurns(question.work(40))
  const meanwhile = own.reduce((sum, { told }) => sum + told.steps, 0) - before
  t.ok(meanwhile > 30 && meanwhile < 50, `${meanwhile} portions of our own beside its 40`)
  t.same(await Promise.all(ended), Array(20).fill(100))
})
