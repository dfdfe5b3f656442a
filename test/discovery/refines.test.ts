import { test } from 'tap'
import type { SignalRef } from '../../src/adcp/signal.js'
import { type Row, readAnswer, startWorld } from './support/world.js'

const time_budget = { interval: 60, unit: 'seconds' } as const // however busy the machine
/** The lowest CPM in euros; undefined without one. */
function euros({ pricing_options: options = [] }: Row): number | undefined {
  const prices = options.flatMap(({ cpm, currency }) => (currency === 'EUR' ? (cpm ?? []) : []))
  return prices.length > 0 ? Math.min(...prices) : undefined
}

test('a refinement starts with the signals it names and adjusts by its words', async (t) => {
  const { ask } = await startWorld(t, 600)
  const first = readAnswer(await ask({ signal_spec: 'compact SUV intenders', time_budget }))
  const [anchor] = first.signals
    .filter((row) => row.signal_ref.scope === 'data_provider')
    .sort((one, two) => (euros(two) ?? 0) - (euros(one) ?? 0))
  if (!anchor) throw new Error('the market has no priced SUV')
  const signal_refs = [anchor.signal_ref as SignalRef]
  const refine = async (signal_spec: string) =>
    readAnswer(await ask({ signal_spec, signal_refs, time_budget }))

  const cheaper = await refine('the same but cheaper')
  t.equal(cheaper.signals[0]?.signal_agent_segment_id, anchor.signal_agent_segment_id, 'kept, and first')
  t.ok(cheaper.signals.length > 1)
  t.match(cheaper.signals[1]?.name, /SUV|Car|Pickup|Sedan|Vehicle|Hybrid|Minivan|Wagon|Motorcycle|Van/)
  for (const row of cheaper.signals.slice(1)) {
    t.ok((euros(row) ?? 0) < (euros(anchor) ?? 0), row.name)
  }

  const broader = await refine('broader, more reach')
  t.equal(broader.signals[0]?.signal_agent_segment_id, anchor.signal_agent_segment_id)
  for (const row of broader.signals.slice(1)) {
    t.ok((row.coverage_percentage ?? 0) > (anchor.coverage_percentage ?? 0), row.name)
  }

  const elsewhere = await refine('similar ones from other providers')
  for (const row of elsewhere.signals.slice(1)) {
    t.not(row.signal_ref.data_provider_domain, anchor.signal_ref.data_provider_domain)
  }
  const similar = await refine('for motorcycles')
  t.ok(
    similar.signals.slice(0, 12).some((row) => /Motorcycle/.test(row.name)),
    'the text is searched, too',
  )
})
