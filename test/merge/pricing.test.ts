import fc from 'fast-check'
import { test } from 'tap'
import { proven } from '../support/proven.js'
import { merge, offer, rowOf, rowText } from './offers.js'

test('every offer keeps its own options, sorted by model, currency, price and id', (t) => {
  const cpm = (id: string, price: number, currency = 'USD') => ({
    pricing_option_id: id,
    model: 'cpm' as const,
    cpm: price,
    currency,
  })
  const flat = {
    pricing_option_id: 'f',
    model: 'flat_fee' as const,
    amount: 1,
    period: 'monthly' as const,
    currency: 'USD',
  }
  const row = rowOf([
    offer('north', { pricing_options: [flat, cpm('x', 3), cpm('y', 1, 'EUR')] }),
    offer('south', { pricing_options: [cpm('x', 3), cpm('z', 2)] }),
  ])
  const told = row.pricing_options?.map(({ model, cpm }) => `${model} ${cpm ?? ''}`.trim())
  t.same(told, ['cpm 1', 'cpm 2', 'cpm 3', 'cpm 3', 'flat_fee'])
  t.equal(new Set(row.pricing_options?.map(({ pricing_option_id: id }) => id)).size, 5)
  t.end()
})

test('caps and custom prices are carried untouched, ids apart', (t) => {
  const capped = { model: 'percent_of_media' as const, percent: 15, max_cpm: 3, currency: 'EUR' }
  const custom = {
    model: 'custom' as const,
    description: 'ask us',
    metadata: { tiers: [{ from: 1, cpm: 2 }] },
  }
  const row = rowOf([
    offer('north', {
      pricing_options: [
        { pricing_option_id: 'a', ...custom },
        { pricing_option_id: 'b', ...capped },
      ],
    }),
  ])
  t.match(row.pricing_options, [custom, capped])
  t.end()
})

test('a custom price whose words for the operator are no text is left out, and no other', (t) => {
  const priced = (pricing_option_id: string, summary_for_operator?: unknown) => ({
    ...{ pricing_option_id, model: 'custom' as const, description: 'ask us' },
    metadata: { tiers: 1, ...(summary_for_operator !== undefined && { summary_for_operator }) },
  })
  const pricing_options = [
    priced('a'),
    priced('b', 'words'),
    priced('c', null),
    priced('d', ''),
    priced('e', {}),
  ]
  const kept = rowOf([offer('north', { pricing_options })]).pricing_options ?? []
  t.same(kept.map((option) => 'metadata' in option && JSON.stringify(option.metadata)).sort(), [
    '{"tiers":1,"summary_for_operator":"words"}',
    '{"tiers":1}',
  ])
  t.end()
})

test('an id that one upstream gives twice is published once', (t) => {
  const same = { pricing_option_id: 'p', model: 'cpm' as const, currency: 'USD' }
  const row = rowOf([
    offer('north', {
      pricing_options: [
        { ...same, cpm: 9 },
        { ...same, cpm: 4 },
      ],
    }),
  ])
  t.match(row.pricing_options, [{ cpm: 4 }])
  t.equal(row.pricing_options?.length, 1)
  t.end()
})

test('a signal without prices has no pricing_options', (t) => {
  const { pricing_options: _, ...bare } = offer('north').listing
  t.notOk('pricing_options' in rowOf([{ ...offer('north'), listing: bare }]))
  t.end()
})

test('prices are in one order, in whatever order an upstream lists them', (t) => {
  const cpm = fc.record({
    pricing_option_id: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    model: fc.constant('cpm' as const),
    cpm: fc.constantFrom(1, 2),
    currency: fc.constantFrom('EUR', 'USD'),
  })
  const options = fc.uniqueArray(cpm, {
    minLength: 1,
    maxLength: 5,
    selector: ({ pricing_option_id: id }) => id,
  })
  const shuffled = options.chain((all) =>
    fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length })),
  )
  const text = (pricing_options: typeof options extends fc.Arbitrary<infer T> ? T : never) =>
    rowText(merge([offer('north', { pricing_options }), offer('south', { pricing_options })]))
  proven(
    t,
    100,
    fc.property(shuffled, ([all, again]) => text(all) === text(again)),
  )
  t.end()
})
