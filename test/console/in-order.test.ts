import { test } from 'tap'
import { nextInOrder, orderValue, providerOrder } from '../../src/console/in-order.js'
import { createMeter, drained } from '../../src/process/portions.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { rowAt, type Snapshot } from '../../src/snapshot/snapshot.js'
import { judgeThat, listing, sliceOf } from '../feed/world.js'

const DOMAINS = 30_001

test('tens of thousands of providers are put in order in portions, others are served in between', (t) => {
  const domains = Array.from({ length: DOMAINS }, (_, at) => `provider-${(at * 7_919) % DOMAINS}.example`)
  const entries = Uint32Array.from(domains.keys())
  const facts = { domains, domain: entries, type: new Uint8Array(DOMAINS) }
  const ordering = providerOrder({ facts } as unknown as Snapshot)
  let portions = 1
  let step = ordering.next()
  for (; !step.done; portions += 1) step = ordering.next()
  t.ok(portions > DOMAINS / 2_048, `${portions} portions`)
  const { value = () => 0 } = step.value ?? {}
  const places = drained(nextInOrder(entries, value, undefined, 500, createMeter()))
  t.same(
    places.map(({ entry }) => domains[entry]),
    [...domains].sort().slice(0, 500),
  )
  t.end()
})

test('prices, coverage and sellers are in the order of what the rows show in the named countries', (t) => {
  const sold = (id: string, countries: string[], cpm: number, coverage_percentage: number) =>
    listing(id, {
      ...{ countries, coverage_percentage },
      pricing_options: [{ pricing_option_id: 'po', model: 'cpm', cpm, currency: 'USD' }],
    })
  const slices = [
    sliceOf('alpha', [sold('a', ['DE'], 1, 90), sold('b', ['DE', 'US'], 4, 30), sold('c', ['US'], 3, 20)]),
    sliceOf('beta', [sold('a', ['US'], 9, 10), sold('b', ['DE'], 2, 50), sold('c', ['US'], 5, 40)]),
    sliceOf('gamma', [sold('a', ['DE'], 2, 80)]),
  ]
  const snapshot = buildSnapshot({ slices, judge: judgeThat() })
  const ordered = (sort: 'price' | 'price_desc' | 'coverage' | 'sellers', countries?: string[]) => {
    const meter = createMeter()
    const value = orderValue(snapshot, sort, { countries, rates: undefined, meter })
    const places = drained(nextInOrder(snapshot.shown, value, undefined, 3, meter))
    return places.map(({ entry, value }) => {
      const { signal_ref: ref } = rowAt(snapshot, entry) as unknown as { signal_ref: { signal_id: string } }
      return [ref.signal_id, Math.abs(value)]
    })
  }
  t.same(ordered('price'), Object.entries({ a: 1, b: 2, c: 3 }))
  t.same(ordered('price', ['US']), Object.entries({ c: 3, b: 4, a: 9 }))
  t.same(ordered('price_desc', ['US']), Object.entries({ a: 9, b: 4, c: 3 }))
  t.same(ordered('coverage')[0], ['a', 90])
  t.same(ordered('coverage', ['US']), Object.entries({ b: 30, c: 20, a: 10 }))
  t.same(ordered('sellers')[0], ['a', 3])
  t.same(ordered('sellers', ['US'])[0], ['c', 2])
  t.end()
})
