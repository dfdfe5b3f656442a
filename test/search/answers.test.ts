import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { test } from 'tap'
import type { SearchableRow } from '../../src/search/search-index.js'
import { compileSynonyms } from '../../src/search/synonyms.js'
import { createTermTableBuilder } from '../../src/search/term-table.js'
import { proven } from '../support/proven.js'
import { indexRows, searchAtOnce } from '../support/search-at-once.js'

const synonyms = compileSynonyms({
  filler: 'audience, segment, signal, show, available, people',
  qualifiers: 'in market',
  same: [
    'ev, electric vehicle, electric car',
    'auto, car, vehicle',
    'in market, intender, shopping for',
    'mom, mother',
    'parent, families with children',
  ],
  places: {},
  destinations: {},
  kinds: { parent: 'mom, dad', auto: 'suv, ev' },
})

function row(name: string, more: Partial<SearchableRow> = {}): SearchableRow {
  return { name, description: `Devices seen in the panel for ${name}.`, ...more }
}

function searchOf(rows: readonly SearchableRow[], withheld = 0) {
  return searchAtOnce(indexRows(rows, synonyms, withheld), synonyms)
}

const market = [
  row('Electric Vehicle Intenders'),
  row('SUV Owners'),
  row('Grocery Loyalty Shoppers 25-34'),
  row('New Mothers'),
  row('Luxury Travel, Household Income $150k+'),
  row('Streaming Viewers 45-54'),
  row('Business Travel', { description: 'Frequent flyers with a corporate card, last 90 days.' }),
  row('Garden Lovers', { taxonomy: { values: [{ id: '412', path: 'Home > Garden > Lawn care' }] } }),
  row('Dads Who Grill', { data_provider: 'Northwind Panels' }),
]
const search = searchOf(market)
const names = (text: string, limit = 3) =>
  [...search(text, { limit }).rows].map((at) => (market[at] as SearchableRow).name)

test('a question finds the row that says it', async (t) => {
  t.equal(names('frequent business flyers')[0], 'Business Travel')
  t.equal(names('lawn care')[0], 'Garden Lovers', 'taxonomy paths are searched')
  t.equal(names('northwind')[0], 'Dads Who Grill', 'providers are searched')
})

test('synonyms are compiled once, with the first word that is looked up', (t) => {
  let compilations = 0
  const late = compileSynonyms({
    ...{ filler: '', qualifiers: '', kinds: {}, places: {}, destinations: {} },
    get same() {
      compilations += 1
      return ['ev, electric car']
    },
  })
  t.equal(compilations, 0)
  t.ok(late.phrases.has('ev'))
  t.notOk(late.filler.has('ev'))
  t.equal(compilations, 1)
  t.end()
})

test('synonyms meet, whichever side says which word', async (t) => {
  t.equal(names('shopping for an EV')[0], 'Electric Vehicle Intenders')
  t.equal(names('in-market electric cars')[0], 'Electric Vehicle Intenders')
  t.equal(names('moms')[0], 'New Mothers')
})

test('a general word finds its kinds, and a kind prefers itself', async (t) => {
  t.same(names('parents').sort(), ['Dads Who Grill', 'New Mothers'])
  t.equal(names('suv')[0], 'SUV Owners')
  t.same(names('cars').sort(), ['Electric Vehicle Intenders', 'SUV Owners'])
})

test('slips of the pen are forgiven', async (t) => {
  t.equal(names('electirc vehicels')[0], 'Electric Vehicle Intenders')
  t.equal(names('grocrey loyalty')[0], 'Grocery Loyalty Shoppers 25-34')
  t.equal(names('businesstravel')[0], 'Business Travel', 'also a missing space')
})

test('spans match by overlap', async (t) => {
  t.equal(names('adults 25-49')[0], 'Grocery Loyalty Shoppers 25-34')
  t.equal(names('A45-54')[0], 'Streaming Viewers 45-54')
  t.equal(names('income over $100,000')[0], 'Luxury Travel, Household Income $150k+')
  t.equal(names('last 3 months')[0], 'Business Travel')
})

test('what is quoted must be there, what is excluded must not', async (t) => {
  t.same(names('"business travel"'), ['Business Travel'])
  t.same(names('"business gardens"'), [])
  t.same(names('travel, but not luxury'), ['Business Travel'])
})

test('a word counts for something in a row of any length: a row that scores nothing would be found twice', async (t) => {
  const builder = createTermTableBuilder()
  builder.add(0, 0, 1)
  const { impact, peak } = builder.finish([{ text: 'zebra', number: 0 }], () => 1e-9)
  t.same([...impact, ...peak], [1, 1])
})

test('a broad question is answered with everything, live and broad signals first', async (t) => {
  const rows = [
    row('One'),
    row('Two', { deployments: [{ is_live: true }] }),
    row('Three', { coverage_percentage: 80 }),
  ]
  for (const text of ['show all available signals', 'audience', '', '?!']) {
    const hits = searchOf(rows)(text, { limit: 10 })
    t.equal(hits.full, Number.POSITIVE_INFINITY, text)
    t.same([...hits.rows], [1, 2, 0], text)
  }
})

test('signals that are withheld change no answer, however many a denied seller sends', async (t) => {
  const rows = [
    row('Auto buyers', {
      description: 'People who bought a car after a visit to a dealer that they had read about.',
    }),
    row('Auto', { description: 'x' }),
    row('Garden', { description: 'auto garden buyers' }),
  ]
  const answered = (withheld: number) => {
    const { rows: found, scores, full, total } = searchOf(rows, withheld)('auto buyers', { limit: 9 })
    return { found: [...found], scores: [...scores], full, total }
  }
  t.same(answered(1_000), answered(0))
})

test('a question about nothing in the market finds nothing', async (t) => {
  const hits = search('quantum chromodynamics', { limit: 10 })
  t.equal(hits.total, 0)
  t.ok(Number.isFinite(hits.full))
})

test('the window of an earlier question is forgotten', async (t) => {
  const rows = [30, 90].map((days) => row('Travel', { description: `Seen in the last ${days} days.` }))
  const searchRows = searchOf(rows)
  const fulfilling = (days: number) => {
    const { rows: found, fulfils } = searchRows(`travel in the last ${days} days`, { limit: 9 })
    return [...found].filter((_, place) => fulfils[place] === 1)
  }
  t.same([fulfilling(30), fulfilling(90)], [[0], [1]])
})

test('any text over any market: ordered, bounded, only accepted rows, shorter answers are prefixes, whatever was asked before', async (t) => {
  const word = fc.constantFrom(
    'ev',
    'car',
    'mom',
    'travel',
    'luxury',
    '25-34',
    '$50k',
    'grocery',
    'in market',
    'café',
    'x',
  )
  const text = fc.oneof(
    fc.array(word, { maxLength: 8 }).map((words) => words.join(' ')),
    fc.string({ unit: 'grapheme' }),
  )
  proven(
    t,
    60,
    fc.property(
      fc.array(text, { maxLength: 30 }),
      fc.array(text, { minLength: 1, maxLength: 5 }),
      (rows, questions) => {
        const index = indexRows(
          rows.map((name) => row(name)),
          synonyms,
        )
        const searchRows = searchAtOnce(index, synonyms)
        for (const question of questions) {
          const accept = (at: number) => at % 3 !== 0
          const first = searchAtOnce(index, synonyms)(question, { limit: 1_000, accept })
          const whole = searchRows(question, { limit: 1_000, accept })
          const part = searchRows(question, { limit: 3, accept })
          const again = searchRows(question, { limit: 1_000, accept })
          const sorted = whole.scores.every(
            (score, at) => at === 0 || score <= (whole.scores[at - 1] as number),
          )
          if (!sorted || !whole.rows.every(accept) || new Set(whole.rows).size !== whole.rows.length)
            return false
          if (!isDeepStrictEqual(whole, first) || !isDeepStrictEqual(again, whole)) return false
          if (part.total !== whole.total || String(part.rows) !== String(whole.rows.slice(0, 3))) return false
          if (String(part.matches) !== String(whole.matches.slice(0, 3))) return false
        }
        return true
      },
    ),
  )
})
