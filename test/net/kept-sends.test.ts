import { test } from 'tap'
import { leftIn } from '../support/left-of-each.js'

const CHILD = new URL('./support/sent-often.js', import.meta.url)
const MOST_BYTES = 1_000 // a request with its answer takes ten times as much

test('a request of our own is collected with the young space once it is answered', async (t) => {
  for (const [what, bytes] of await leftIn(CHILD))
    t.ok(bytes < MOST_BYTES, `${what}: ${Math.round(bytes)} bytes are left of each`)
})
