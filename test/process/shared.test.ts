import { test } from 'tap'
import { createShared, type InPortions, inOwnTurns, inTurns } from '../../src/process/portions.js'
import { countTurns } from '../support/turns.js'

const MOST_STEPS = 1_000_000 // more than are ever taken before somebody leaves

/** Work that tells how far it came, and that it has let go of what it holds. */
function createWork() {
  const told = { begun: 0, steps: 0, released: 0 }
  function* work(most: number): InPortions<number> {
    told.begun += 1
    try {
      for (let step = 0; step < most; step += 1) {
        told.steps += 1
        yield
      }
      return most
    } finally {
      told.released += 1
    }
  }
  return { told, work }
}

const turns = async (count: number) => {
  for (let at = 0; at < count; at += 1) await new Promise(setImmediate)
}

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

test('shared work is done once, goes on while one waits for it, and stops with the last', async (t) => {
  const { told, work } = createWork()
  const shared = createShared<string, number>()
  const ask = (most: number) => {
    const abort = new AbortController()
    return { abort, result: shared('key', (stop) => inTurns(work(most), stop), abort.signal) }
  }
  const [one, two, three] = [ask(20), ask(20), ask(20)]
  await turns(3)
  one.abort.abort(new Error('one left'))
  await t.rejects(one.result, { message: 'one left' })
  t.same(await Promise.all([two.result, three.result]), [20, 20])
  t.match(told, { begun: 1, steps: 20, released: 1 })

  const [four, five] = [ask(MOST_STEPS), ask(MOST_STEPS)]
  await turns(3)
  four.abort.abort(new Error('four left'))
  five.abort.abort(new Error('five left'))
  const six = ask(2)
  await t.rejects(four.result, { message: 'four left' })
  await t.rejects(five.result, { message: 'five left' })
  t.equal(await six.result, 2, 'who asks after the last has left is not told that it left')
  await turns(3)
  t.match(told, { begun: 3, released: 3 })
  t.ok(told.steps < 50, `${told.steps} steps`)
  t.throws(() => shared('key', (stop) => inTurns(work(1), stop), AbortSignal.abort(new Error('gone'))), {
    message: 'gone',
  })
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
