/** Whole answers to every judged question: no row of a first page shares nothing with its question. */
import tap, { test } from 'tap'
import { createMarket } from '../../sandbox/market.js'
import { rowAt } from '../../src/snapshot/snapshot.js'
import { grade, JUDGED_BRIEFS } from '../support/judged-briefs.js'
import { JUDGED_READINGS } from '../support/judged-readings.js'
import { type Row, readAnswer, startWorld } from './support/world.js'

tap.setTimeout(300_000)
const SIGNALS = 2_400
type Told = { tributary: { relevance?: { has: string[] }[] } }

test('each row of a first page shares something with its question', async (t) => {
  const { ask, feed } = await startWorld(t, SIGNALS)
  const market = createMarket({ size: SIGNALS, seed: 1 })
  const snapshot = feed.current()
  if (!snapshot) throw new Error('nothing is published')
  const there = [...snapshot.shown].flatMap(
    (entry) => market.find((rowAt(snapshot, entry) as Row).signal_ref.signal_id) ?? [],
  )
  let absent = 0
  for (const { brief, wanted } of [...JUDGED_BRIEFS, ...JUDGED_READINGS]) {
    const { ext, signals } = readAnswer(
      await ask({ signal_spec: brief, time_budget: { interval: 60, unit: 'seconds' } }),
    )
    const { relevance = [] } = (ext as unknown as Told).tributary
    t.equal(relevance.length, signals.length, brief)
    t.equal(relevance.filter(({ has }) => has.length === 0).length, 0, brief)
    if (there.some((signal) => grade(wanted, signal) > 0)) t.ok(signals.length > 0, `${brief}: it is there`)
    else absent += 1
  }
  t.comment(`${absent} questions ask for what the feed has not`)
  t.ok(absent > 0)
})
