/** What kinds of signals a snapshot shows: for get_adcp_capabilities. Withheld signals do not count. */
import { SIGNAL_TYPES, type SignalType } from '../adcp/signal.js'
import type { Snapshot } from '../snapshot/snapshot.js'

export type Inventory = {
  /** Sorted. */
  providerDomains: readonly string[]
  types: ReadonlySet<SignalType>
}

const counted = new WeakMap<Snapshot, Inventory>()

/** Counted once for each snapshot. */
export function inventoryOf(snapshot: Snapshot): Inventory {
  const known = counted.get(snapshot)
  if (known) return known
  const { domain, domains, type } = snapshot.facts
  const seen = { domains: new Set<number>(), types: new Set<number>() }
  for (const entry of snapshot.shown) {
    seen.domains.add(domain[entry] as number)
    seen.types.add(type[entry] as number)
  }
  const inventory = {
    providerDomains: domains.filter((name, at) => name !== '' && seen.domains.has(at)).sort(),
    types: new Set(SIGNAL_TYPES.filter((_, at) => seen.types.has(at))),
  }
  counted.set(snapshot, inventory)
  return inventory
}
