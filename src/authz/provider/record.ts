/**
 * Everything remembered about one provider, and how each outcome changes it: the stale and hard caps, the rollback
 * refusal and the pointer hold of docs/protocol.md#provider-files as pure steps in time. What was adopted last is
 * remembered longer than the document itself, so that no detour over a failure lets an older file or another pointer
 * in.
 */
import { hash } from 'node:crypto'
import {
  expiryOf,
  HARD_CAP_MS,
  type HeldDocument,
  POINTER_HOLD_MS,
  type ProviderState,
} from '../rules/state.js'
import type { Failure, KnownFile } from './file.js'

export type ProviderRecord = {
  readonly domain: string
  readonly document?: HeldDocument
  /** Last time the document was fetched or confirmed, ms. */
  readonly confirmedAt?: number
  /** What was last believed: where it came from (undefined: the well-known url itself) and how new it said it was. */
  readonly adopted?: { readonly location?: string; readonly lastUpdated?: number; readonly at: number }
  /** The well-known file as last answered, when it is a pointer. */
  readonly front?: KnownFile & { readonly target: string }
  readonly pending?: { readonly url: string; readonly since: number }
  readonly problem?: ProviderState['problem']
  readonly checkedAt?: number
}

/** What is still remembered of the last adoption: as long as the document could have been in force. */
function memory({ adopted }: ProviderRecord, now: number): ProviderRecord['adopted'] {
  return adopted && now < adopted.at + HARD_CAP_MS ? adopted : undefined
}

/** Where the provider now says its file is; `follow` tells whether that may be believed yet. */
export function pointed(
  record: ProviderRecord,
  location: string | undefined,
  now: number,
  confirmed: boolean,
): { record: ProviderRecord; follow: boolean } {
  const { pending, ...rest } = record
  const adopted = memory(record, now)
  // A file at the well-known url itself is the domain speaking, and how a delegation is revoked: never held.
  if (location === undefined || !adopted || adopted.location === location)
    return { record: rest, follow: true }
  const watched = pending?.url === location ? pending : { url: location, since: now }
  const follow = confirmed || now >= watched.since + POINTER_HOLD_MS
  return { record: { ...record, pending: watched }, follow }
}

/**
 * A document came or was confirmed unchanged. Older than the last one believed, it is refused
 * (docs/protocol.md#provider-files).
 */
export function received(
  record: ProviderRecord,
  document: HeldDocument,
  location: string | undefined,
  now: number,
): ProviderRecord {
  const floor = memory(record, now)?.lastUpdated
  if (document.lastUpdated !== undefined && floor !== undefined && document.lastUpdated < floor) {
    const message = 'last_updated is older than that of the file last held'
    return failing(record, { reason: 'rollback', message, passing: true }, now)
  }
  const same = record.document?.digest === document.digest && record.document.url === document.url
  const { problem, pending, ...rest } = record
  return {
    ...rest,
    ...(pending && pending.url !== location && { pending }),
    document: same ? { ...document, fetchedAt: record.document.fetchedAt } : document,
    confirmedAt: now,
    // A file dated in the future must not lock out its own correction: it counts as written now.
    adopted: { location, lastUpdated: latest(floor, document.lastUpdated, now), at: now },
    checkedAt: now,
  }
}

function latest(floor: number | undefined, lastUpdated: number | undefined, now: number): number | undefined {
  return lastUpdated === undefined ? floor : Math.min(lastUpdated, now)
}

/** A refresh failed: a fault keeps the document for its stale cap; that there is no file ends it. */
export function failing(record: ProviderRecord, failure: Failure, now: number): ProviderRecord {
  const since = failure.passing && record.problem?.passing ? record.problem.since : now
  const problem = { ...failure, since }
  if (failure.passing) return { ...record, problem, checkedAt: now }
  const { document, confirmedAt, ...rest } = record
  return { ...rest, problem, checkedAt: now }
}

/** The well-known url answered with something that is no pointer: a watched one has not stayed the same. */
export function withdrawn(record: ProviderRecord, failure: Failure): ProviderRecord {
  if (failure.passing) return record
  const { pending, ...rest } = record
  return rest
}

/** The document is let go of, good as it is: it takes more room than there is for it. */
export function evicted(record: ProviderRecord, now: number): ProviderRecord {
  const message = 'the file takes more room than its share of limits.provider_bytes'
  const { document, confirmedAt, ...rest } = record
  return { ...rest, problem: { reason: 'over_budget', message, since: now, passing: false } }
}

/** A changed pointer is on hold and its target was not asked for: whatever is held goes on. */
export function holding(record: ProviderRecord, now: number): ProviderRecord {
  if (record.document) return { ...record, checkedAt: now }
  const message = 'a changed pointer is on hold, and no earlier file is held'
  return failing(record, { reason: 'held_pointer', message, passing: false }, now)
}

/** The record without what time has voided. */
export function expired(record: ProviderRecord, now: number): ProviderRecord {
  const { document, confirmedAt, adopted, ...rest } = record
  const kept = memory(record, now)
  if (document && confirmedAt !== undefined && now < confirmedAt + HARD_CAP_MS) {
    return { ...rest, document, confirmedAt, ...(kept && { adopted: kept }) }
  }
  const ended = {
    reason: 'expired',
    message: 'the last good file passed its hard cap',
    since: now,
    passing: false,
  } as const
  const problem = rest.problem ?? (document && ended)
  return { ...rest, ...(problem && { problem }), ...(kept && { adopted: kept }) }
}

/** What other threads and people get to see. */
export function stateOf(record: ProviderRecord, nextAttemptAt: number | undefined): ProviderState {
  const { domain, document, confirmedAt, pending, problem, checkedAt } = record
  return {
    domain,
    ...(document && confirmedAt !== undefined && { document, confirmedAt }),
    ...(confirmedAt !== undefined && { expiresAt: expiryOf(confirmedAt, problem) }),
    ...(pending && { heldPointer: { ...pending, adoptAt: pending.since + POINTER_HOLD_MS } }),
    ...(problem && { problem }),
    ...(checkedAt !== undefined && { checkedAt }),
    ...(nextAttemptAt !== undefined && { nextAttemptAt }),
  }
}

/**
 * When a provider is looked at next: at the refresh time while all is well, sooner while something is wrong, and at
 * the end of a pointer's hold (docs/protocol.md#provider-files).
 */
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

export type ProviderLog = {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

/** One line in the log for each change of what is held of a provider. */
export function tellChange(log: ProviderLog, before: ProviderState, after: ProviderState): void {
  const { domain, document, problem, heldPointer } = after
  if (heldPointer && heldPointer.url !== before.heldPointer?.url) {
    log.warn(
      { domain, adoptAt: heldPointer.adoptAt },
      'provider changed its pointer: held, the old file stays',
    )
  }
  if (problem && problem.reason !== before.problem?.reason) {
    log.warn({ domain, reason: problem.reason, kept: document !== undefined }, `provider: ${problem.message}`)
  }
  if (document && document.digest !== before.document?.digest) {
    log.info({ domain, bytes: document.bytes.byteLength }, 'provider file in use')
  }
}
