/** The order of an answer, rule by rule, over rows that are written here and what upstreams placed first among them. */
import { test } from 'tap'
import type { SignalRef } from '../../src/adcp/signal.js'
import { type GetSignalsRequest, selectionOf } from '../../src/adcp/signal-requests.js'
import { readSynonyms } from '../../src/briefs/briefs.js'
import { createLocal } from '../../src/briefs/local.js'
import { createRanking } from '../../src/briefs/rank.js'
import { createFeed } from '../../src/feed/feed.js'
import { createSearchHost } from '../../src/search/search-host.js'
import { compileSynonyms } from '../../src/search/synonyms.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { rowAt } from '../../src/snapshot/snapshot.js'
import type { Listing } from '../../src/upstreams/rows/slice.js'
import { buyer, judgeThat, listing, sliceOf } from '../feed/world.js'

const synonyms = compileSynonyms(await readSynonyms('config/synonyms.yaml'))

const named = (name: string, more: Partial<Listing> = {}) =>
  listing(name.toLowerCase().replace(/\W+/g, '_'), { name, description: name, ...more })
const refTo = (name: string) => named(name).signal_ref as SignalRef
const on = (platform: string) => ({ deployments: [{ type: 'platform' as const, platform, is_live: false }] })
const costing = (...cpms: number[]) => ({
  pricing_options: cpms.map((cpm, at) => ({
    ...{ pricing_option_id: `p${at}`, model: 'cpm' as const },
    ...{ cpm, currency: 'USD' },
  })),
})

/** The names of an answer, in order. `lists`: of each upstream, the names in the order of its answer. */
async function answerOf(
  rows: readonly Listing[],
  input: GetSignalsRequest,
  lists: readonly (readonly string[])[],
): Promise<string[]> {
  const feed = createFeed({ cursorSecret: 'secret', retain: { ms: 1, bytes: 2 ** 30 } })
  const snapshot = buildSnapshot({ slices: [sliceOf('north', rows)], judge: judgeThat() })
  feed.publish(snapshot, 0)
  const search = createSearchHost(synonyms)
  await search.publish(snapshot)
  const local = createLocal({ search, synonyms })
  const rank = createRanking({ local, synonyms, rates: () => undefined })
  const seen = feed.see(selectionOf(input), buyer)
  if (!seen) throw new Error('nothing was published')
  const nameOf = (hit: number) => (rowAt(snapshot, hit) as Listing).name
  const hits = new Map(Array.from(snapshot.shown, (hit) => [nameOf(hit), hit]))
  const found = lists.map((list) => list.map((name) => hits.get(name) as number))
  const order = await rank(input, buyer, { corpus: { feed: snapshot }, seen, lists: found })
  await search.close()
  return order.hits.map(nameOf)
}

const MANY = 20 // upstreams that agree

const CARS = [
  named('Luxury electric sports cars', costing(5)),
  named('Electric sports cars', costing(3)),
  named('Luxury sports watches', costing(1)),
]

type Rule = {
  rule: string
  rows: Listing[]
  ask: GetSignalsRequest
  lists?: string[][]
  order: string[]
}

const RULES: Rule[] = [
  {
    rule: 'a row of the place that the words name stands before any that upstreams prefer',
    rows: [named('Coffee drinkers Germany', { countries: ['DE'] }), named('Coffee drinkers France')],
    ask: { signal_spec: 'coffee drinkers in Germany' },
    lists: Array(MANY).fill(['Coffee drinkers France']),
    order: ['Coffee drinkers Germany', 'Coffee drinkers France'],
  },
  {
    rule: 'so does one on the platform that the words name',
    rows: [named('Coffee drinkers', on('dv360')), named('Coffee lovers', on('the-trade-desk'))],
    ask: { signal_spec: 'coffee on DV360' },
    lists: Array(MANY).fill(['Coffee lovers']),
    order: ['Coffee drinkers', 'Coffee lovers'],
  },
  {
    rule: 'a row at exactly the price that the words name is not too dear',
    rows: [named('Coffee', costing(3)), named('Coffee and tea and cake', costing(2))],
    ask: { signal_spec: 'coffee, CPM under 2 USD' },
    order: ['Coffee and tea and cake', 'Coffee'],
  },
  {
    rule: 'nor is one of which any price is low enough',
    rows: [named('Coffee', costing(3)), named('Coffee and tea and cake', costing(9, 1))],
    ask: { signal_spec: 'coffee, CPM under 2 USD' },
    order: ['Coffee and tea and cake', 'Coffee'],
  },
  {
    rule: 'a named signal stands first, and once',
    rows: [named('Coffee'), named('Coffee drinkers')],
    ask: { signal_spec: 'coffee', signal_refs: [refTo('Coffee drinkers')] },
    order: ['Coffee drinkers', 'Coffee'],
  },
  {
    rule: 'what shares little with a named signal is found',
    rows: CARS,
    ask: { signal_spec: 'similar', signal_refs: [refTo('Luxury electric sports cars')] },
    order: ['Luxury electric sports cars', 'Electric sports cars', 'Luxury sports watches'],
  },
  {
    rule: 'but is not the same thing, cheaper',
    rows: CARS,
    ask: { signal_spec: 'cheaper', signal_refs: [refTo('Luxury electric sports cars')] },
    order: ['Luxury electric sports cars', 'Electric sports cars'],
  },
  {
    rule: 'what shares nothing with the question stands in the order of the upstream that found it',
    rows: [named('Coffee'), ...['Dogs', 'Cats', 'Birds', 'Fish'].map((name) => named(name))],
    ask: { signal_spec: 'coffee' },
    lists: [['Fish', 'Birds', 'Cats', 'Dogs']],
    order: ['Coffee', 'Fish', 'Birds', 'Cats', 'Dogs'],
  },
  {
    rule: 'what an upstream found is left out where a filter leaves it out',
    rows: [named('Coffee'), named('Dogs', on('dv360'))],
    ask: { signal_spec: 'coffee', destinations: [{ type: 'platform', platform: 'the-trade-desk' }] },
    lists: [['Dogs']],
    order: ['Coffee'],
  },
]

for (const { rule, rows, ask, lists = [], order } of RULES) {
  test(rule, async (t) => {
    t.same(await answerOf(rows, ask, lists), order)
  })
}

test('rows that upstreams place alike stand by number, whichever upstream is read first', async (t) => {
  const rows = ['Dogs', 'Cats', 'Birds'].map((name) => named(name))
  const [one, two, three] = [
    ['Dogs', 'Cats', 'Birds'],
    ['Cats', 'Birds', 'Dogs'],
    ['Birds', 'Dogs', 'Cats'],
  ] as const
  for (const lists of [
    [one, two, three],
    [one, three, two],
    [two, one, three],
    [two, three, one],
    [three, one, two],
    [three, two, one],
  ]) {
    t.same(await answerOf(rows, { signal_spec: 'coffee' }, lists), ['Cats', 'Birds', 'Dogs'])
  }
})
