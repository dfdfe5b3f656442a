import { test } from 'tap'
import { createSearch } from '../../src/search/search.js'
import { indexRows, NO_SYNONYMS } from '../support/search-at-once.js'

const ROWS = 40_000 // more than are looked at between two stops
const WORDS = 3_000

function searchIn(names: readonly string[]) {
  const search = createSearch(
    indexRows(
      names.map((name) => ({ name, description: '' })),
      NO_SYNONYMS,
    ),
    NO_SYNONYMS,
  )
  return (text: string) => {
    let stops = 0
    const steps = search(text, { limit: 10 })
    for (;;) {
      const step = steps.next()
      if (step.done) return { stops, total: step.value.total }
      stops += 1
    }
  }
}

test('a search stops wherever it passes over very many rows', async (t) => {
  const search = searchIn(Array.from({ length: ROWS }, (_, at) => (at % 2 === 0 ? 'car' : 'car owner')))
  t.same(search('zebra'), { stops: 0, total: 0 })
  const first = search('car')
  t.equal(first.total, ROWS)
  t.equal(
    first.stops,
    5 * 2,
    'while it scores rows, weighs them, picks the best, forgets, and notes what each has',
  )
  const second = search('car')
  t.equal(second.stops, first.stops + 2, 'while it clears the scores of the search before')
  t.same(search('zebra'), { stops: 2, total: 0 })
  t.same(search('zebra'), { stops: 0, total: 0 }, 'once')
  const required = search('"car"')
  t.equal(required.total, ROWS)
  t.equal(required.stops, first.stops + 2, 'while it counts required words')
  const excluded = search('owner but not car')
  t.same(excluded, { stops: 7, total: 0 }, 'two of them while it excludes rows')
  t.same(search(''), { stops: 2 * 2, total: ROWS }, 'while it takes all rows, and picks the best')
})

test('a misspelt word is compared in portions with the words of an index', async (t) => {
  const letters = (at: number) => [...at.toString(9)].map((digit) => 'qwrtpdfgh'[Number(digit)]).join('')
  const search = searchIn([...Array.from({ length: WORDS }, (_, at) => `squad${letters(at)}`), 'streaming'])
  const { stops, total } = search('streamng')
  t.ok(stops > 1, `${stops} stops`)
  t.equal(total, 1)
})
