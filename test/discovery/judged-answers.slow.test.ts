/** Slow, because it asks every agent the judged briefs; `npm test` measures the search by them (test/search/relevance.test.ts). */
import { test } from 'tap'
import { createMarket } from '../../sandbox/market.js'
import { rowAt } from '../../src/snapshot/snapshot.js'
import { grade, JUDGED_BRIEFS, ndcg, recall } from '../support/judged-briefs.js'
import { type Row, readAnswer, startWorld, strangersIn } from './support/world.js'

const SIGNALS = 1_200

test('whole answers, upstreams included, are good by the judged briefs', async (t) => {
  const { ask, feed } = await startWorld(t, SIGNALS)
  const market = createMarket({ size: SIGNALS, seed: 1 })
  const signalOf = (row: Row) => market.find(row.signal_ref.signal_id)
  const snapshot = feed.current()
  if (!snapshot) throw new Error('nothing is published')
  const mirrored = [...snapshot.shown].map((entry) => signalOf(rowAt(snapshot, entry) as Row))
  const measured = []
  for (const { brief, wanted } of JUDGED_BRIEFS) {
    const answer = readAnswer(
      await ask({ signal_spec: brief, time_budget: { interval: 60, unit: 'seconds' } }),
    )
    const { signals } = answer
    t.same(strangersIn(answer), [], `${brief}: each row of the first page shares a concept with it`)
    const found = signals.map(signalOf)
    const grades = found.map((signal) => (signal ? grade(wanted, signal) : 0))
    const all = [...new Set([...mirrored, ...found].map((signal) => signal?.index))].flatMap((index) =>
      index === undefined ? [] : [grade(wanted, market.signal(index))],
    )
    measured.push({ ndcg: ndcg(grades, all, 10), recall: recall(grades, all, 50) })
  }
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const [quality, found] = [mean(measured.map((one) => one.ndcg)), mean(measured.map((one) => one.recall))]
  t.comment(`nDCG@10 ${quality.toFixed(3)}, recall@50 ${found.toFixed(3)}`)
  t.ok(quality >= 0.9)
  t.ok(found >= 0.95)
})
