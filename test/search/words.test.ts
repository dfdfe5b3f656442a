import { test } from 'tap'
import { overlap, parseIntervalTerm } from '../../src/search/spans.js'
import { editDistance } from '../../src/search/spelling.js'
import { termOf } from '../../src/search/stems.js'
import { tokens } from '../../src/search/words.js'

test('text is folded: case, accents, possessives and punctuation do not matter', async (t) => {
  t.same(tokens("CAFÉ-goers, Kid’s toys & mother's day"), ['cafe', 'goers', 'kid', 'toys', 'mother', 'day'])
})

test('words in one family share a stem', async (t) => {
  const families = [
    ['shopper', 'shoppers'],
    ['electric', 'electrical'],
    ['investing', 'invest', 'invested', 'invests'],
    ['automotive', 'automotives'],
    ['agency', 'agencies'],
    ['relational', 'relate', 'relates', 'related'],
    ['hopping', 'hop', 'hopped'],
    ['subscription', 'subscriptions'],
  ]
  for (const family of families) t.equal(new Set(family.map(termOf)).size, 1, family.join(', '))
  t.not(termOf('organic'), termOf('organization'))
})

test('number phrases become spans, however they are written', async (t) => {
  const same: Record<string, readonly string[]> = {
    '#25..34': ['25-34', '25 – 34', '25 to 34', '25-34 year olds', '25 to 34 years old'],
    '#50..': ['50+', 'over 50', '50 plus', '50 and older', 'at least 50', 'more than 50'],
    '#0..30': ['under 30', 'younger than 30'],
    '$100000..': ['$100k+', '$100,000+', 'over $100k', 'USD 100k+', 'EUR 100,000+'],
    '$75000..100000': ['$75k-$100k', '$75-100k', '$75,000 to $100,000'],
    '~360..360': ['12 months', '12-month', '1 year', '1yr'],
    '~90..90': ['90 days', '90-day', '3 months'],
  }
  for (const [span, texts] of Object.entries(same)) {
    for (const text of texts) t.same(tokens(text), [span], text)
  }
  t.same(tokens('A18-49'), ['adults', '#18..49'])
  t.same(tokens('W25+'), ['women', '#25..'])
  t.same(tokens('5G and 4x4'), ['5g', 'and', '4x4'])
})

test('spans agree by how much they share', async (t) => {
  const span = (term: string) => {
    const interval = parseIntervalTerm(term)
    if (!interval) throw new Error(`${term} is no span`)
    return interval
  }
  t.equal(overlap(span('#25..34'), span('#25..34')), 1)
  t.ok(overlap(span('#25..54'), span('#25..34')) > overlap(span('#25..54'), span('#50..60')))
  t.equal(overlap(span('#18..24'), span('#25..34')), 0)
  t.equal(overlap(span('#18..24'), span('~18..24')), 0, 'days are not years of age')
  t.ok(overlap(span('$100000..'), span('$150000..')) > 0.5)
})

test('edit distance counts a swap of neighbours as one slip', async (t) => {
  t.equal(editDistance('electirc', 'electric', 2), 1)
  t.equal(editDistance('vehicle', 'vehcle', 2), 1)
  t.equal(editDistance('luxury', 'lxuryy', 2), 2)
  t.equal(editDistance('dog', 'horse', 2), 3)
})
