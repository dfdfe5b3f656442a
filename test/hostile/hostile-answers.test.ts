import { test } from 'tap'
import { play } from './support/play.js'

test('every hostile answer is read, and nothing is lied about or told', { timeout: 300_000 }, async (t) => {
  const { alive, unread, unhealthy, lies, leaks } = await play(t, 512 * 1024, 240_000)
  t.ok(alive)
  t.same(unread, [], 'every stranger has been read')
  t.equal(unhealthy, 0, 'it answered throughout')
  t.same(lies, [])
  t.same(leaks, [])
})
