import { test } from 'tap'
import { corpusOf } from './support/corpus.js'
import { play } from './support/play.js'

test('a heap of 1 GB outlives answers that unpack to all that may be read, and serves meanwhile', {
  timeout: 300_000,
}, async (t) => {
  const { alive, unread, unhealthy, lies, leaks, longestStopMs } = await play(
    t,
    corpusOf(31 * 1024 ** 2),
    240_000,
  )
  t.comment(`longest stop since the start: ${Math.round(longestStopMs)} ms`)
  t.ok(alive)
  t.same(unread, [], 'every stranger has been read')
  t.equal(unhealthy, 0, 'it answered throughout')
  t.same(lies, [])
  t.same(leaks, [])
})
