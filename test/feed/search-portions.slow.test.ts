import { test } from 'tap'
import { createSearcher } from '../../src/search/search.js'
import { createSearchIndexBuilder } from '../../src/search/search-index.js'
import { compileSynonyms } from '../../src/search/synonyms.js'

const ROWS = 40_000 // more than are looked at between two stops

test('a search in portions finds what one without a stop does, also while others search', async (t) => {
  const synonyms = compileSynonyms({
    filler: '',
    qualifiers: '',
    same: [],
    places: {},
    destinations: {},
    kinds: {},
  })
  const builder = createSearchIndexBuilder(synonyms)
  for (let at = 0; at < ROWS; at += 1) builder.add({ name: `Owners ${at % 7} of cars`, description: '' })
  const searcher = createSearcher(builder.finish(), synonyms)
  const texts = ['owners', 'cars 77', 'owners 3 cars', '']
  const inTurns = texts.map((text) => searcher.searchInTurns(text, { limit: 50 }))
  for (const [at, text] of texts.entries()) {
    const whole = searcher.search(text, { limit: 50 })
    t.same(await inTurns[at], whole, text)
  }
  const fails = () => {
    throw new Error('in the middle')
  }
  await t.rejects(searcher.searchInTurns('owners', { limit: 50, accept: fails }), /in the middle/)
  const after = await searcher.searchInTurns('owners', { limit: 50 })
  t.same(after, searcher.search('owners', { limit: 50 }), 'a search that failed leaves nothing behind')
})
