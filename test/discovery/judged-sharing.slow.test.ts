/**
 * Whole answers to every judged question: no row of a first page shares nothing with its question, and what is of the place
 * that a question names stands before what is about the same elsewhere.
 */
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

test('rows of the place that a question names come before those of other places', async (t) => {
  const { ask } = await startWorld(t, SIGNALS)
  const market = createMarket({ size: SIGNALS, seed: 1 })
  let placed = 0
  for (const { brief, wanted } of JUDGED_READINGS.filter((one) => one.wanted.places)) {
    const { signals } = readAnswer(
      await ask({ signal_spec: brief, time_budget: { interval: 60, unit: 'seconds' } }),
    )
    const about = signals.flatMap((row) => {
      const signal = market.find(row.signal_ref.signal_id)
      return signal && grade(wanted, signal) > 0 ? [signal] : []
    })
    const isThere = ({ place }: (typeof about)[number]) => wanted.places?.includes(place.label) === true
    if (about.some(isThere)) placed += 1
    const late = about.find(
      (signal, at) =>
        isThere(signal) &&
        about.slice(0, at).some((other) => !isThere(other) && other.subject.name === signal.subject.name),
    )
    t.notOk(late, `${brief}: ${late?.name}`)
  }
  t.ok(placed > 20, `${placed} of the questions have rows of their place`)
})
