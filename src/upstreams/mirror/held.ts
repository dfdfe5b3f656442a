/** What is held of a scope, in two special cases: nothing of its own, and what was read with another credential. */
import type { RosterEntry } from '../roster/roster.js'
import { packSlab } from '../rows/slab.js'
import type { HeldSlice } from './mirror.js'

/** What is held of an account that is priced off the rate card: no row of its own. */
export function rateCard({ id, agentUrl }: RosterEntry, scope: string, now: number): HeldSlice {
  const slice = {
    ...{ upstream: id, agentUrl, scope, mode: 'wholesale' as const },
    ...{ rows: packSlab([]), digests: new BigUint64Array(new SharedArrayBuffer(0)), dropped: {} },
    walkedAt: now,
  }
  return { slice, domains: [], confirmedAt: now, cacheScope: 'public' }
}

/** Tokens belong to the credential that they came with. */
export function untokened({ slice, ...rest }: HeldSlice): HeldSlice {
  const { feedVersion, pricingVersion, ...plain } = slice
  return { ...rest, slice: plain }
}
