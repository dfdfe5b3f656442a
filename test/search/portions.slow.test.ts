import { test } from 'tap'
import { createSearcher } from '../../src/search/search-host.js'
import { indexRows, NO_SYNONYMS, searchAtOnce } from '../support/search-at-once.js'

const ROWS = 40_000 // more than are looked at between two stops

test('a search in portions finds what one without a stop does, also while others search', async (t) => {
  const rows = Array.from({ length: ROWS }, (_, at) => ({
    name: `Owners ${at % 7} of cars`,
    description: '',
  }))
  const index = indexRows(rows, NO_SYNONYMS)
  const atOnce = searchAtOnce(index, NO_SYNONYMS)
  const searcher = createSearcher(index, NO_SYNONYMS)
  const texts = ['owners', 'cars 77', 'owners 3 cars', '']
  const inTurns = texts.map((text) => searcher.search(text, { limit: 50 }))
  for (const [at, text] of texts.entries()) {
    const whole = atOnce(text, { limit: 50 })
    t.same(await inTurns[at], whole, text)
  }
  const fails = () => {
    throw new Error('in the middle')
  }
  await t.rejects(searcher.search('owners', { limit: 50, accept: fails }), /in the middle/)
  const after = await searcher.search('owners', { limit: 50 })
  t.same(after, atOnce('owners', { limit: 50 }), 'a search that failed leaves nothing behind')
})
