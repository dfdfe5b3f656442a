import { test } from 'tap'
import { leftIn } from '../support/left-of-each.js'

const CHILD = new URL('./support/asked-often.js', import.meta.url)
const MOST_BYTES = 2_000 // a request with its response takes 4,000

test('a request is collected with the young space once it is answered', async (t) => {
  for (const [path, bytes] of await leftIn(CHILD))
    t.ok(bytes < MOST_BYTES, `${path}: ${Math.round(bytes)} bytes are left of each`)
})
