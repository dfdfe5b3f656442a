/** The index of some rows, and searches in it without a stop. */
import { drained } from '../../src/process/portions.js'
import { createSearch, type SearchHits } from '../../src/search/search.js'
import {
  createSearchIndexBuilder,
  type SearchableRow,
  type SearchIndex,
  type Synonyms,
} from '../../src/search/search-index.js'
import { compileSynonyms } from '../../src/search/synonyms.js'

/** Every word stands for itself. */
export const NO_SYNONYMS = compileSynonyms({
  ...{ filler: '', qualifiers: '', same: [] },
  ...{ kinds: {}, places: {}, destinations: {} },
})

/** `withheld`: how many rows follow that nobody is shown. */
export function indexRows(rows: readonly SearchableRow[], synonyms: Synonyms, withheld = 0): SearchIndex {
  const builder = createSearchIndexBuilder(synonyms)
  for (const row of rows) builder.add(row)
  for (let at = 0; at < withheld; at += 1) builder.skip()
  return drained(builder.finish())
}

export function searchAtOnce(index: SearchIndex, synonyms: Synonyms) {
  const search = createSearch(index, synonyms)
  return (...question: Parameters<typeof search>): SearchHits => drained(search(...question))
}
