import { test } from 'tap'
import { nextInOrder, orderValue } from '../../src/console/in-order.js'
import { drained } from '../../src/process/portions.js'
import type { Snapshot } from '../../src/snapshot/snapshot.js'

const DOMAINS = 30_001

test('tens of thousands of providers are put in order in portions, others are served in between', (t) => {
  const domains = Array.from({ length: DOMAINS }, (_, at) => `provider-${(at * 7_919) % DOMAINS}.example`)
  const entries = Uint32Array.from(domains.keys())
  const facts = { domains, domain: entries, type: new Uint8Array(DOMAINS) }
  const ordering = orderValue({ facts } as unknown as Snapshot, 'provider', undefined)
  let portions = 1
  let step = ordering.next()
  for (; !step.done; portions += 1) step = ordering.next()
  t.ok(portions > DOMAINS / 2_048, `${portions} portions`)
  const value = step.value ?? (() => 0)
  const places = drained(nextInOrder(entries, value, undefined, 500))
  t.same(
    places.map(({ entry }) => domains[entry]),
    [...domains].sort().slice(0, 500),
  )
  t.end()
})
