import { test } from 'tap'
import { corpusOf } from './support/corpus.js'
import { play } from './support/play.js'

/** One in three of them, with small bombs: hostile-bombs.slow.test.ts plays all, as large as what is read. */
const SOME = corpusOf(64 * 1024).filter((_, at) => at % 3 === 0)

test('hostile answers are read, and nothing is lied about or told', { timeout: 300_000 }, async (t) => {
  const { alive, unread, unhealthy, lies, leaks } = await play(t, SOME, 240_000)
  t.ok(alive)
  t.same(unread, [], 'every stranger has been read')
  t.equal(unhealthy, 0, 'it answered throughout')
  t.same(lies, [])
  t.same(leaks, [])
})
