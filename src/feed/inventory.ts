/** What kinds of signals a snapshot shows: for get_adcp_capabilities. Withheld signals do not count. */
import { SIGNAL_TYPES, type SignalType } from '../adcp/signal.js'
import type { Snapshot } from '../snapshot/snapshot.js'

export type Inventory = {
  /** Sorted, as far as they are few. */
  providerDomains: readonly string[]
  types: ReadonlySet<SignalType>
}

const MOST_SORTED = 10_000 // more domains than an answer could name: sorting them would take longer than telling

const counted = new WeakMap<Snapshot, Inventory>()

/** Counted once for each snapshot. */
export function inventoryOf(snapshot: Snapshot): Inventory {
  const known = counted.get(snapshot)
  if (known) return known
  const { domain, domains, type } = snapshot.facts
  const seen = { domains: new Uint8Array(domains.length), types: new Uint8Array(SIGNAL_TYPES.length) }
  for (const entry of snapshot.shown) {
    seen.domains[domain[entry] as number] = 1
    seen.types[type[entry] as number] = 1
  }
  const shown = domains.filter((name, at) => name !== '' && seen.domains[at])
  const inventory = {
    providerDomains: shown.length > MOST_SORTED ? shown : shown.sort(),
    types: new Set(SIGNAL_TYPES.filter((_, at) => seen.types[at])),
  }
  counted.set(snapshot, inventory)
  return inventory
}
