/** How much of each upstream is published, counted in portions: for whoever looks often and must not keep others waiting. */
import type { Snapshot } from '../snapshot/snapshot.js'
import { createMeter, type InPortions } from '../threads/portions.js'

/** Offers that stand in a published signal, by upstream. */
export function* publishedByUpstream({ offers, shown, slices }: Snapshot): InPortions<Map<string, number>> {
  const meter = createMeter()
  const counts = new Uint32Array(slices.length)
  for (const entry of shown) {
    meter.did(1)
    if (meter.isDue()) yield
    for (let one = offers.at[entry] as number; one < (offers.at[entry + 1] as number); one += 1) {
      const from = offers.slice[one] as number
      if (offers.stands[one]) counts[from] = (counts[from] as number) + 1
    }
  }
  return new Map(slices.map(({ slice }, at) => [slice.upstream, counts[at] as number]))
}
