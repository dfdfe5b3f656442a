/**
 * When a provider is looked at next: at the refresh time while all is well, sooner while something is wrong, and at
 * the end of a pointer's hold (docs/protocol.md#provider-files).
 */
import { hash } from 'node:crypto'
import { POINTER_HOLD_MS } from '../state.js'
import type { ProviderRecord } from './record.js'

const MIN_RETRY_MS = 1_000
const MAX_RETRY_MS = 60_000 // docs/configuration.md: a recovered server never waits longer
const MAX_RECHECK_MS = 600_000 // a provider that publishes or repairs its file sees it read soon

/** A number in [0, 1) that belongs to the domain: spreads refreshes without chance. */
function spread(domain: string): number {
  return Number.parseInt(hash('sha256', domain).slice(0, 8), 16) / 2 ** 32
}

/** When to look at the provider again, ms. A regular look comes a little before `refreshMs` is over. */
export function nextAttempt(record: ProviderRecord, now: number, refreshMs: number): number {
  const { domain, problem, pending, adopted } = record
  const regular = now + refreshMs * (1 - spread(domain) / 10)
  if (problem?.passing) {
    // A server that answers, but not with a file, is asked for megabytes each time. And names that never led to a file may
    // be anyone's invention: they do not get to crowd out the others.
    const isDown = problem.reason === 'unreachable'
    const ceiling = adopted && isDown ? MAX_RETRY_MS : MAX_RECHECK_MS
    return Math.min(regular, now + Math.min(ceiling, Math.max(MIN_RETRY_MS, now - problem.since)))
  }
  // There will be room when something else leaves: until then another fetch would end the same way.
  const isBroken = problem && problem.reason !== 'over_budget'
  const recheck = isBroken ? Math.min(regular, now + MAX_RECHECK_MS) : regular
  // A hold that has run out is followed at the next attempt: past instants add nothing to the regular pace.
  const adoptAt = pending ? pending.since + POINTER_HOLD_MS : 0
  return adoptAt > now ? Math.min(recheck, adoptAt) : recheck
}
