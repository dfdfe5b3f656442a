import fc from 'fast-check'
import { test } from 'tap'
import { drained } from '../../src/process/portions.js'
import { type Concept, readQuestion } from '../../src/search/concepts.js'
import type { SearchIndex } from '../../src/search/search-index.js'
import { compileSynonyms } from '../../src/search/synonyms.js'
import { proven } from '../support/proven.js'
import { indexRows, searchAtOnce } from '../support/search-at-once.js'

const synonyms = compileSynonyms({
  filler: 'audience',
  qualifiers: 'frequent',
  same: ['viewers, watchers', 'buyers, shoppers, customers', 'car, auto'],
  places: { GB: 'great britain, britain' },
  destinations: {},
  kinds: { customers: 'owners', auto: 'suv' },
})

// The first of them are in most rows, as the words of a market are.
const WORDS = [
  ...['viewers', 'buyers', 'streaming', 'watchers', 'first', 'car', 'owners', 'frequent', 'suv', 'france'],
  ...[
    'rugby',
    'lawn',
    'korean',
    'beer',
    'skiing',
    'opera',
    'great britain',
    '25-34',
    '18-54',
    'last 30 days',
  ],
]

function indexOf(names: readonly string[]): SearchIndex {
  const rows = names.map((name, at) => ({ name, description: '', coverage_percentage: (at * 37) % 100 }))
  return indexRows(rows, synonyms)
}

const CUT = 0.15
const LEAST = CUT * 1.001 // a row that is as near to the limit as this may be on either side of it

type Worth = { row: number; value: number }

/** What each row is worth, said plainly: every concept over every row. */
function worths(index: SearchIndex, text: string, weigh: (row: number) => number): Worth[] {
  const { concepts, asked } = drained(readQuestion(index, synonyms, text))
  const partOf = ({ alternatives, idf, bonus, subject }: Concept, row: number) => {
    const found = alternatives.flatMap(({ table, term, weight }) => {
      const from = table.postingAt[term] as number
      const at = table.rows.subarray(from, table.postingAt[term + 1]).indexOf(row)
      return at < 0 ? [] : [{ weight, score: (idf * weight * (table.impact[from + at] as number)) / 65_535 }]
    })
    const weight = bonus ? 0 : (found[0]?.weight ?? 0)
    return { score: Math.max(0, ...found.map(({ score }) => score)), weight, about: subject ? weight : 0 }
  }
  const all = Array.from({ length: index.rows }, (_, row) => {
    const parts = concepts.map((concept) => partOf(concept, row))
    const sum = (of: (part: (typeof parts)[number]) => number) =>
      parts.reduce((total, part) => total + of(part), 0)
    const score = sum((part) => part.score)
    const value = (score * (1 + sum((part) => part.weight))) / (1 + asked)
    return { row, value: score > 0 ? value * weigh(row) + 1e-6 * (index.prior[row] as number) : 0 }
  })
  const highest = Math.max(0, ...all.map(({ value }) => value))
  return all.filter(({ value }) => value > 0 && value >= CUT * highest)
}

test('rows that cannot come near the best are left out early, and nothing else changes', async (t) => {
  const common = fc.constantFrom(...WORDS.slice(0, 6))
  const name = fc
    .tuple(
      fc.array(common, { minLength: 1, maxLength: 4 }),
      fc.array(fc.constantFrom(...WORDS), { maxLength: 2 }),
    )
    .map((words) => words.flat().join(' '))
  const market = fc.array(name, { minLength: 20, maxLength: 60 })
  const text = fc
    .array(fc.constantFrom(...WORDS), { minLength: 1, maxLength: 6 })
    .map((words) => words.join(' '))
  proven(
    t,
    24,
    fc.property(market, text, fc.integer({ min: 2, max: 9 }), (names, asked, every) => {
      const index = indexOf(names)
      const weigh = (row: number) => (row % every === 0 ? 0.5 : 1)
      const accept = (row: number) => row % every !== 1
      const plain = worths(index, asked, (row) => (accept(row) ? weigh(row) : Number.NEGATIVE_INFINITY))
      const limit = names.length
      const hits = searchAtOnce(index, synonyms)(asked, { limit, weigh, accept })
      if (hits.full === Number.POSITIVE_INFINITY) return true // it asks for everything
      const highest = Math.max(0, ...plain.map(({ value }) => value))
      const values = new Map(plain.map(({ row, value }) => [row, value]))
      const isFound = ({ row, value }: Worth) => value <= highest * LEAST || hits.rows.includes(row)
      const isRight = (row: number, at: number) => {
        const value = values.get(row) ?? highest * CUT
        return Math.abs((hits.scores[at] as number) - value) <= 1e-3 * value
      }
      return plain.every(isFound) && hits.rows.every(isRight)
    }),
  )
})

test('a country of two words is not any place', async (t) => {
  const names = ['Skiing Great Britain', 'Skiing France', ...Array<string>(8).fill('Opera')]
  const search = searchAtOnce(indexOf(names), synonyms)
  const { rows, matches, labels } = search('skiing great britain', { limit: 2 })
  const country = 1 << labels.indexOf('great britain')
  t.same([...rows], [0, 1])
  t.ok((matches[0] as number) & country)
  t.notOk((matches[1] as number) & country, 'a row of another country does not have it')
})

/** So many rows of one name. */
const rowsOf = (count: number, name: string, more: object = {}) =>
  Array.from({ length: count }, () => ({ name, description: '', ...more }))
const LIVE = { deployments: [{ type: 'platform', platform: 'x', is_live: true }], coverage_percentage: 100 }

test('a row does not have the subject because the rows that have it are too weak to be shown', (t) => {
  const rows = [...rowsOf(1, 'frequent opera'), ...rowsOf(156, 'car opera'), ...rowsOf(43, 'lawn opera')]
  const hits = searchAtOnce(indexRows(rows, synonyms), synonyms)('frequent car', { limit: 9 })
  t.same([...hits.rows], [0])
  t.same([...hits.fulfils], [0])
  t.equal(hits.subject, 1)
  t.end()
})

test('a row that just reaches the limit because it is live and broad is not left out early', (t) => {
  const rows = [...rowsOf(11, 'rugby opera'), ...rowsOf(43, 'lawn opera', LIVE)]
  const hits = searchAtOnce(indexRows(rows, synonyms), synonyms)('rugby lawn', { limit: 99 })
  t.equal(hits.rows.length, rows.length)
  t.end()
})

test('how much of the subject a row has is not judged before the whole subject is known', (t) => {
  const rows = [
    ...rowsOf(1, 'buyers viewers car france'),
    ...rowsOf(1, 'watchers owners great britain'),
    ...rowsOf(120, 'lawn car great britain'),
    ...['lawn', 'car'].flatMap((word) => rowsOf(10, `${word} opera great britain`)),
    ...rowsOf(58, 'skiing opera great britain'),
  ]
  const hits = searchAtOnce(indexRows(rows, synonyms), synonyms)('viewers buyers car lawn', {
    ...{ limit: 999, countries: ['GB'] },
    weigh: (row) => (row === 0 ? 0.5 : 1),
  })
  const names = [...hits.rows].map((row) => rows[row]?.name)
  t.same(
    [...new Set(names)],
    rows.slice(0, 3).map(({ name }) => name),
  )
  t.end()
})
