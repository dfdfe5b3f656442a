import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { test } from 'tap'

const CHILD = fileURLToPath(new URL('./support/asked-often.js', import.meta.url))
const MOST_BYTES = 2_000 // a request with its response takes 4,000

test('a request is collected with the young space once it is answered', async (t) => {
  const child = fork(CHILD, { execArgv: ['--expose-gc'] })
  const [left] = (await once(child, 'message')) as [[path: string, bytes: number][]]
  for (const [path, bytes] of left)
    t.ok(bytes < MOST_BYTES, `${path}: ${Math.round(bytes)} bytes are left of each`)
})
