/** A word that every row holds is searched for without holding up the loop. */
import { performance } from 'node:perf_hooks'
import { test } from 'tap'
import { handleOfSegment } from '../../src/explain/ref.js'
import { listing, sliceOf } from '../support/server-feed.js'

const ROWS = 40_000

test('a word in every row is no segment, and no turn of the loop waits for it', async (t) => {
  const rows = Array.from({ length: ROWS }, (_, n) => listing(`s${n}`))
  const slices = [sliceOf('northwind', rows), sliceOf('meridian', rows)]
  let longest = 0
  let last = performance.now()
  const turns = setInterval(() => {
    const now = performance.now()
    longest = Math.max(longest, now - last)
    last = now
  }, 1)
  last = performance.now()
  t.equal(await handleOfSegment(slices, 'USD'), undefined)
  clearInterval(turns)
  t.comment(`longest stop ${longest.toFixed(1)} ms`)
  t.ok(longest < 250, 'it took seconds when each hit looked for its row from the start')
  t.match(await handleOfSegment(slices, `seg_s${ROWS - 1}`), /^tsig_|^[A-Za-z0-9_-]+$/)
  t.not(await handleOfSegment(slices, 'seg_s0'), await handleOfSegment(slices, `seg_s${ROWS - 1}`))
})
