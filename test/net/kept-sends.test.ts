import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { test } from 'tap'

const CHILD = fileURLToPath(new URL('./support/sent-often.js', import.meta.url))
const MOST_BYTES = 1_000 // a request with its answer takes ten times as much

test('a request of our own is collected with the young space once it is answered', async (t) => {
  const child = fork(CHILD, { execArgv: ['--expose-gc'] })
  const [left] = (await once(child, 'message')) as [[what: string, bytes: number][]]
  for (const [what, bytes] of left)
    t.ok(bytes < MOST_BYTES, `${what}: ${Math.round(bytes)} bytes are left of each`)
})
