import { test } from 'tap'
import { createGate, createRowPieces } from '../../src/briefs/corpus.js'
import { criteriaOf, type Reader, type Selection } from '../../src/feed/query.js'
import { viewOf } from '../../src/feed/view.js'
import { drained } from '../../src/process/portions.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { buyer, judgeThat, listing, sliceOf } from '../feed/world.js'

const platform = (name: string) => ({ type: 'platform' as const, platform: name })
const found = buildSnapshot({
  slices: [
    sliceOf('alpha', [
      listing('s', {
        countries: ['DE'],
        deployments: [
          { ...platform('X'), is_live: true, activation_key: { type: 'segment_id', segment_id: 'AKEY' } },
          { ...platform('ONLYDE'), is_live: false },
        ],
      }),
    ]),
    sliceOf('beta', [
      listing('s', { countries: ['US'], deployments: [{ ...platform('X'), is_live: false }] }),
    ]),
  ],
  judge: judgeThat(),
})
const nothing = buildSnapshot({ slices: [], judge: judgeThat() })
const reader: Reader = { ...buyer, grants: [platform('X')] }

test('what a question finds is narrowed to the countries it names, in the feed and beside it', async (t) => {
  for (const corpus of [{ feed: found }, { feed: nothing, extra: found }]) {
    const [entry] = found.shown
    const hit = corpus.feed.count - (corpus.feed === found ? found.count : 0) + (entry as number)
    const see = async (selection: Selection) => {
      const rowSelection = { criteria: criteriaOf(selection), reader }
      const { entries } = drained(viewOf(corpus.feed, rowSelection.criteria, { visibility: 'full' }))
      return {
        passes: (await createGate(corpus, entries, rowSelection))(hit),
        row: JSON.stringify(createRowPieces(corpus, rowSelection).row(hit)),
      }
    }
    t.match((await see({ countries: ['DE'] })).row, /AKEY/)
    t.notMatch((await see({ countries: ['US'] })).row, /AKEY|ONLYDE|alpha/)
    t.ok((await see({ countries: ['US'] })).passes)
    t.notOk((await see({ countries: ['US'], destinations: [platform('ONLYDE')] })).passes)
  }
})
