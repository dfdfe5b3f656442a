/**
 * Destinations, of which it is asked what they mean for another one. A platform that is named without an account is all of it, and
 * an account is a part. Two may be the same deployment where either covers the other: that much must not be switched off for
 * somebody who has the other on. Only what covers another one ends it. However many there are, an answer takes one look-up: one
 * segment may be on at thousands of seats.
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
  return createDestinationSet([one]).overlaps(other)
}

export function createDestinationSet(first: readonly Destination[] = []) {
  const accounts = new Map<string, Set<string>>() // by target

  function at(destination: Destination) {
    const [target = '', account = ''] = partsOf(destination) ?? []
    return { account, there: accounts.get(target) }
  }

  /** Whether one of them is exactly this one. */
  function has(destination: Destination): boolean {
    const { account, there } = at(destination)
    return there?.has(account) === true
  }

  /** Whether this one is one of them, or a part of it. */
  function covers(destination: Destination): boolean {
    const { account, there } = at(destination)
    return there !== undefined && (there.has(account) || there.has(''))
  }

  /** Whether this one and one of them can affect the same deployment. */
  function overlaps(destination: Destination): boolean {
    const { account, there } = at(destination)
    return there !== undefined && (account === '' || there.has(account) || there.has(''))
  }

  function add(destinations: readonly Destination[]): void {
    for (const destination of destinations) {
      const parts = partsOf(destination)
      if (!parts) continue
      const [target, account] = parts
      accounts.set(target, (accounts.get(target) ?? new Set()).add(account))
    }
  }

  add(first)
  return { add, has, covers, overlaps }
}

export type DestinationSet = ReturnType<typeof createDestinationSet>
