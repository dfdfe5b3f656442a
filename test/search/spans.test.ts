/** Spans of a question among those of an index, where names may carry a number each. */
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { test } from 'tap'
import { drained } from '../../src/process/portions.js'
import { readQuestion } from '../../src/search/concepts.js'
import { overlap, parseIntervalTerm } from '../../src/search/spans.js'
import { termText } from '../../src/search/term-table.js'
import { tokens } from '../../src/search/words.js'
import { costRatio } from '../support/cost-ratio.js'
import { proven } from '../support/proven.js'
import { indexRows, NO_SYNONYMS } from '../support/search-at-once.js'

const MOST = 20 // three usually; a question that reads the text of every span takes a hundred times as long
const MOST_FOUND = 16
const LEAST = 0.1

const indexOf = (names: readonly string[]) =>
  indexRows(
    names.map((name) => ({ name, description: '' })),
    NO_SYNONYMS,
  )

const spanText = fc
  .tuple(fc.nat(60), fc.nat(60), fc.constantFrom('one', 'range', 'open', 'days', 'money'))
  .map(([first, second, kind]) => {
    if (kind === 'one') return `${first}`
    if (kind === 'range') return `${Math.min(first, second)}-${Math.max(first, second)}`
    if (kind === 'open') return `over ${first}`
    return kind === 'days' ? `${first} days` : `$${first}k+`
  })

test('a span finds those that overlap it most, among any', (t) => {
  proven(
    t,
    80,
    fc.property(fc.array(spanText, { minLength: 1, maxLength: 60 }), spanText, (texts, asked) => {
      const [term = ''] = tokens(asked)
      const span = parseIntervalTerm(term)
      const found = drained(readQuestion(indexOf(texts), NO_SYNONYMS, asked)).concepts.flatMap(
        ({ alternatives }) =>
          alternatives.map((one) => ({ term: termText(one.table, one.term), weight: one.weight })),
      )
      const all = [...new Set(texts.flatMap(tokens))].sort().flatMap((one) => {
        const other = parseIntervalTerm(one)
        const weight = span && other ? overlap(span, other) : 0
        return weight >= LEAST ? [{ term: one, weight }] : []
      })
      const best = all.sort((one, other) => other.weight - one.weight).slice(0, MOST_FOUND)
      return isDeepStrictEqual(found, best)
    }),
  )
  t.end()
})

test('a question takes the time of its words, not of the numbers that names carry', async (t) => {
  const numbered = (count: number) => indexOf(Array.from({ length: count }, (_, at) => `Buyers ${at}`))
  const asking = (index: ReturnType<typeof indexOf>, times: number) => ({
    work: () => void drained(readQuestion(index, NO_SYNONYMS, 'buyers over 7')),
    times,
  })
  const ratio = await costRatio(asking(numbered(100), 100), asking(numbered(10_000), 10), MOST)
  t.ok(ratio < MOST, `a hundred times the numbers: ${ratio.toFixed(1)} times the time`)
})
