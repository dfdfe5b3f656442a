import { test } from 'tap'
import { fulfils, type RefinableRow, readWishes, refinedQuestion } from '../../src/search/wishes.js'

function row(
  more: Partial<RefinableRow> & { cpm?: number; currency?: string; domain?: string } = {},
): RefinableRow {
  const { cpm, currency = 'USD', domain = 'p.example', ...rest } = more
  return {
    name: 'Auto Intenders',
    signal_ref: { scope: 'data_provider', data_provider_domain: domain, signal_id: 's' },
    deployments: [{ is_live: false }],
    ...(cpm !== undefined && {
      pricing_options: [{ pricing_option_id: 'o', model: 'cpm' as const, cpm, currency }],
    }),
    ...rest,
  }
}

test('wishes are read from plain words, and the rest is left to search for', async (t) => {
  t.same(readWishes('the same but cheaper, for hybrid cars').wishes, ['cheaper'])
  t.match(readWishes('the same but cheaper, for hybrid cars').rest, /hybrid cars/)
  t.same(readWishes('Less expensive ones with more reach').wishes, ['cheaper', 'broader'])
  t.same(readWishes('narrower').wishes, ['narrower'])
  t.same(readWishes('similar, from other providers, already live').wishes, ['other_providers', 'live'])
  t.same(readWishes('alternatives').wishes, ['other_providers'])
  t.same(readWishes('camping holidays').wishes, [])
})

test('the question is what the text still says and what the named signals are called', async (t) => {
  t.equal(refinedQuestion(readWishes('cheaper, hybrid'), [row()]), ', hybrid . Auto Intenders')
})

test('cheaper compares only what compares', async (t) => {
  t.ok(fulfils(['cheaper'], row({ cpm: 1 }), [row({ cpm: 2 })]))
  t.notOk(fulfils(['cheaper'], row({ cpm: 2 }), [row({ cpm: 2 })]), 'equal is not cheaper')
  t.notOk(fulfils(['cheaper'], row({ cpm: 1, currency: 'EUR' }), [row({ cpm: 2 })]), 'another currency')
  t.notOk(fulfils(['cheaper'], row(), [row({ cpm: 2 })]), 'no price')
  t.notOk(fulfils(['cheaper'], row({ cpm: 2 }), [row({ cpm: 1 }), row({ cpm: 3 })]), 'cheaper than each')
})

test('broader and narrower go by the share that is covered', async (t) => {
  const [small, large] = [row({ coverage_percentage: 5 }), row({ coverage_percentage: 40 })]
  t.ok(fulfils(['broader'], large, [small]))
  t.notOk(fulfils(['broader'], small, [large]))
  t.ok(fulfils(['narrower'], small, [large]))
  t.notOk(fulfils(['narrower'], row(), [large]), 'unknown fulfils nothing')
})

test('every wish must be fulfilled', async (t) => {
  const named = [row({ cpm: 2 })]
  t.ok(fulfils(['cheaper', 'other_providers'], row({ cpm: 1, domain: 'q.example' }), named))
  t.notOk(fulfils(['cheaper', 'other_providers'], row({ cpm: 1 }), named))
  t.notOk(fulfils(['live'], row(), named))
  t.ok(fulfils(['live'], row({ deployments: [{ is_live: true }] }), named))
})
