import { test } from 'tap'
import type { PricingOption } from '../../src/adcp/signal.js'
import { explainSignal, explainView } from '../../src/explain/signal.js'
import type { Selection } from '../../src/feed/query.js'
import { handleKey } from '../../src/merge/identity.js'
import { inTurns } from '../../src/process/portion-turns.js'
import { drained } from '../../src/process/portions.js'
import { ask, emptyFeed, publish } from '../feed/feed-of.js'
import { buyer, judgeThat, listing, sliceOf } from '../feed/world.js'
import { countTurns } from '../support/turns.js'

const cpm = (price: number): PricingOption[] => [
  { pricing_option_id: 'po', model: 'cpm', cpm: price, currency: 'USD' },
]
const german = listing('s1', { countries: ['DE'], pricing_options: cpm(3), coverage_percentage: 70 })
const american = listing('s1', {
  ...{ countries: ['US'], pricing_options: cpm(8), coverage_percentage: 20 },
  deployments: [{ type: 'platform', platform: 'dv360', is_live: true }],
})
const DESK = { destinations: [{ type: 'platform', platform: 'the-trade-desk' }] } as const
const VENDOR = { vendor: { tier: 'gold' } }

const QUESTIONS: [selection: Selection, by: string[]][] = [
  [{ filters: { max_cpm: 5 } }, []],
  [{ countries: ['US'] }, []],
  [{ countries: ['FR'] }, ['countries']],
  [{ filters: { max_cpm: 1 }, countries: ['FR'] }, ['filters.max_cpm', 'countries']],
  [{ filters: { max_cpm: 5 }, countries: ['US'] }, ['filters.max_cpm']],
  [{ filters: { max_cpm: 5 }, countries: ['DE'] }, []],
  [{ filters: { min_coverage_percentage: 50 }, countries: ['US'] }, ['filters.min_coverage_percentage']],
  [{ ...DESK, countries: ['US'] }, ['destinations']],
  [{ ...DESK, filters: { max_cpm: 5 }, countries: ['US'] }, ['filters.max_cpm', 'destinations']],
  // What is asked under ext restricts nothing (docs/errors/UNKNOWN_FILTER.md) but for the currency of a price.
  [{ filters: { ext: VENDOR } }, []],
  [{ filters: { max_cpm: 1, ext: { tributary: { currency: 'EUR' }, ...VENDOR } } }, []],
  [{ filters: { max_cpm: 1, ext: { tributary: { currency: 'USD' }, ...VENDOR } } }, ['filters.max_cpm']],
]

test('what explain says leaves a signal out is what leaves it out of the feed', async (t) => {
  const feed = emptyFeed()
  const snapshot = publish(feed, [sliceOf('alpha', [german]), sliceOf('beta', [american])])
  const handle = ask(feed, {}).signals[0]?.signal_agent_segment_id ?? ''
  const key = handleKey(handle) as Uint32Array
  const signal = drained(explainSignal({ snapshot, key, judge: judgeThat(), evidence: () => undefined }))
  if (!signal) throw new Error('the signal is there')
  for (const [selection, by] of QUESTIONS) {
    const question = JSON.stringify(selection)
    t.equal(ask(feed, selection).signals.length, by.length === 0 ? 1 : 0, `the feed of ${question}`)
    const view = await explainView({ feed, signal, reader: buyer, isDenied: false, selection })
    t.same(view.filtered_by, by, question)
  }
})

test('a signal with thousands of offers is explained in portions', async (t) => {
  async function turnsFor(offers: number): Promise<number> {
    const feed = emptyFeed()
    const rows = Array.from({ length: offers }, (_, at) => ({ ...german, signal_agent_segment_id: `s${at}` }))
    const snapshot = publish(feed, [sliceOf('alpha', rows)])
    const key = handleKey(ask(feed, {}).signals[0]?.signal_agent_segment_id ?? '') as Uint32Array
    const turns = countTurns()
    const input = { snapshot, key, judge: judgeThat(), evidence: () => undefined }
    const signal = await inTurns(explainSignal(input))
    t.equal(signal?.offers.length, offers)
    return turns.stop()
  }
  const [few, many] = [await turnsFor(500), await turnsFor(2_000)]
  t.ok(many > few + 40, `${few} turns, then ${many}`)
})
