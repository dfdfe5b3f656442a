/**
 * Every judged question, asked where the feed has a tenth of what upstreams could have: what shares no concept with the question
 * is on no first page, also where an upstream's own search is all that vouches for a row.
 */
import { test } from 'tap'
import { JUDGED_BRIEFS } from '../support/judged-briefs.js'
import { JUDGED_READINGS } from '../support/judged-readings.js'
import { readAnswer, startWorld, strangersIn } from './support/world.js'

/** About nothing that the demo market has. */
const FOREIGN = ['wellness apps', 'cryptocurrency wallets', 'people who collect stamps']

test('no first page has a row that shares no concept with its question', async (t) => {
  const { ask } = await startWorld(t, 240)
  const questions = [...JUDGED_BRIEFS, ...JUDGED_READINGS].map(({ brief }) => brief)
  let vouched = 0
  for (const signal_spec of [...questions, ...FOREIGN]) {
    const answer = readAnswer(await ask({ signal_spec }))
    const { signals, pagination } = answer
    t.same(strangersIn(answer), [], signal_spec)
    if (signals.length === 0 && pagination?.has_more) vouched += 1
  }
  t.ok(vouched > 0, `${vouched} questions are answered by what upstreams vouch for alone`)
})
