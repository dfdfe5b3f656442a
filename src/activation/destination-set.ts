/**
 * Destinations, of which it is asked whether another one may be the same deployment. An account that only one of the two names does
 * not separate them. However many there are, the answer takes one look-up: one segment may be on at thousands of seats.
 */
import type { Destination } from '../adcp/signal.js'
import { destinationKey } from '../merge/deployments.js'

/** The target without its account, and the account: empty without one. Undefined for a malformed agent url. */
function partsOf(destination: Destination): [string, string] | undefined {
  const key = destinationKey(destination)
  if (key === undefined) return undefined
  const at = key.indexOf('#')
  return at < 0 ? [key, ''] : [key.slice(0, at), key.slice(at)]
}

/** Whether the two can affect the same deployment. */
export function mayOverlap(one: Destination, other: Destination): boolean {
  const named = createDestinationSet()
  named.add([one])
  return named.overlaps(other)
}

export function createDestinationSet() {
  const accounts = new Map<string, Set<string>>() // by target

  function overlaps(destination: Destination): boolean {
    const [target = '', account = ''] = partsOf(destination) ?? []
    const there = accounts.get(target)
    return there !== undefined && (account === '' || there.has('') || there.has(account))
  }

  function add(destinations: readonly Destination[]): void {
    for (const destination of destinations) {
      const parts = partsOf(destination)
      if (!parts) continue
      const [target, account] = parts
      accounts.set(target, (accounts.get(target) ?? new Set()).add(account))
    }
  }

  return { add, overlaps }
}

export type DestinationSet = ReturnType<typeof createDestinationSet>
