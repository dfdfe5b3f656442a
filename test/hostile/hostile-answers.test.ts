import { test } from 'tap'
import { play } from './support/play.js'

const BOMB_BYTES = 64 * 1024 // those of hostile-bombs.slow.test.ts are as large as what is read

test('every hostile answer is read, and nothing is lied about or told', { timeout: 300_000 }, async (t) => {
  const { alive, unread, unhealthy, lies, leaks } = await play(t, BOMB_BYTES, 240_000)
  t.ok(alive)
  t.same(unread, [], 'every stranger has been read')
  t.equal(unhealthy, 0, 'it answered throughout')
  t.same(lies, [])
  t.same(leaks, [])
})
