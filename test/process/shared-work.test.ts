import { test } from 'tap'
import { inTurns } from '../../src/process/portion-turns.js'
import { createShared } from '../../src/process/shared-work.js'
import { createWork, MOST_STEPS, turns } from './support/watched-work.js'

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
