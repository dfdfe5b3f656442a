import { test } from 'tap'
import { createRecent } from '../../src/process/memory.js'

test('one entry more than it is for drops the one whose last use is longest ago', async (t) => {
  const recent = createRecent<number>(3)
  for (const [at, name] of ['one', 'two', 'three'].entries()) recent.set(name, at)
  recent.get('one')
  recent.set('four', 4)
  t.same([...recent.keys()].sort(), ['four', 'one', 'three'])
  recent.set('five', 5)
  t.same([...recent.keys()].sort(), ['five', 'four', 'one'])
})

test('it takes memory for what it holds, not for what it may hold', async (t) => {
  const recent = createRecent<true>(Number.MAX_SAFE_INTEGER)
  for (const name of ['one', 'two', 'three']) recent.set(name, true)
  recent.delete('two')
  recent.set('four', true)
  t.same([...recent.keys()].sort(), ['four', 'one', 'three'])
})
