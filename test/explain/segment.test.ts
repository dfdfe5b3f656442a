/** A word that every row holds is searched for without holding up the loop. */
import { test } from 'tap'
import { handleOfSegment } from '../../src/explain/explain.js'
import { listing, sliceOf } from '../support/server-feed.js'
import { countTurns } from '../support/turns.js'

const ROWS = 40_000

test('a word in every row is no segment, and no turn of the loop waits for it', async (t) => {
  const rows = Array.from({ length: ROWS }, (_, n) => listing(`s${n}`))
  const slices = [sliceOf('northwind', rows), sliceOf('meridian', rows)]
  const counted = countTurns()
  const before = process.cpuUsage()
  t.equal(await handleOfSegment(slices, 'USD'), undefined)
  const { user } = process.cpuUsage(before) // what it cost, however busy the machine is
  const turns = counted.stop()
  t.comment(`${turns} turns, ${user / 1_000} ms`)
  t.ok(turns > ROWS / 512, 'others had their turn every 512 hits')
  t.ok(user < 1_500_000, 'it took seconds when each hit looked for its row from the start')
  t.match(await handleOfSegment(slices, `seg_s${ROWS - 1}`), /^tsig_|^[A-Za-z0-9_-]+$/)
  t.not(await handleOfSegment(slices, 'seg_s0'), await handleOfSegment(slices, `seg_s${ROWS - 1}`))
})
