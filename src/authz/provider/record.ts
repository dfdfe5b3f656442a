/**
 * Everything remembered about one provider, and how what it answers changes that (docs/protocol.md#provider-files): the stale and
 * hard caps, the rollback refusal and the pointer hold, as pure steps in time. The last adoption is remembered longer than the
 * document itself. Otherwise a provider could fail for a while and then come back with an older file or another pointer.
 */
import { hash } from 'node:crypto'
import { HARD_CAP_MS, type HeldDocument, POINTER_HOLD_MS, type ProviderState } from '../rules/verdict.js'
import type { Failure, KnownFile } from './files.js'

const MIN_RETRY_MS = 1_000
const MAX_RETRY_MS = 60_000 // docs/configuration.md: a recovered server never waits longer
const MAX_RECHECK_MS = 600_000 // a provider that publishes or repairs its file is read again soon

export type ProviderRecord = {
  readonly domain: string
  readonly document?: HeldDocument
  /** Last time the document was fetched or confirmed, ms. */
  readonly confirmedAt?: number
  /** The last adopted file: its url (undefined: the well-known url itself) and the date it stated. */
  readonly adopted?: { readonly location?: string; readonly lastUpdated?: number; readonly at: number }
  /** The last answer of the well-known url, when it is a pointer. */
  readonly front?: KnownFile & { readonly target: string }
  readonly pending?: { readonly url: string; readonly since: number }
  readonly problem?: ProviderState['problem']
  readonly checkedAt?: number
}

/** Where its file is, and where it may be read next, as far as that is not the well-known url. */
export function locationsOf({ adopted, pending, front }: ProviderRecord): string[] {
  return [adopted?.location, pending?.url, front?.target].filter((url) => url !== undefined)
}

/** What is remembered of the last adoption: for as long as its document could have been in force. */
function lastAdoption({ adopted }: ProviderRecord, now: number): ProviderRecord['adopted'] {
  return adopted && now < adopted.at + HARD_CAP_MS ? adopted : undefined
}

/** Where the provider now says its file is; `follow` tells whether the pointer may be followed yet. */
export function pointed(
  record: ProviderRecord,
  location: string | undefined,
  now: number,
  confirmed: boolean,
): { record: ProviderRecord; follow: boolean } {
  const { pending, ...rest } = record
  const adopted = lastAdoption(record, now)
  // A file at the well-known url itself comes from the domain, and is how a delegation is revoked: it is never put on
  // hold.
  if (location === undefined || !adopted || adopted.location === location)
    return { record: rest, follow: true }
  const watched = pending?.url === location ? pending : { url: location, since: now }
  const follow = confirmed || now >= watched.since + POINTER_HOLD_MS
  return { record: { ...record, pending: watched }, follow }
}

/**
 * A document arrived or was confirmed unchanged. It is refused when it is older than the last adopted one
 * (docs/protocol.md#provider-files).
 */
export function received(
  record: ProviderRecord,
  document: HeldDocument,
  location: string | undefined,
  now: number,
): ProviderRecord {
  const floor = lastAdoption(record, now)?.lastUpdated
  if (document.lastUpdated !== undefined && floor !== undefined && document.lastUpdated < floor) {
    const message = 'last_updated is older than that of the file last held'
    return failing(record, { reason: 'rollback', message, passing: true }, now)
  }
  const same = record.document?.digest === document.digest && record.document.url === document.url
  const fetchedAt = same ? record.document.fetchedAt : document.fetchedAt
  const { problem, pending, ...rest } = record
  return {
    ...rest,
    ...(pending && pending.url !== location && { pending }),
    document: { ...document, fetchedAt },
    confirmedAt: now,
    adopted: { location, lastUpdated: latest(floor, writtenBy({ ...document, fetchedAt })), at: now },
    checkedAt: now,
  }
}

/**
 * A file dated in the future counts as written when it arrived, however often it was confirmed since; otherwise its own correction
 * would be refused as older.
 */
function writtenBy({ lastUpdated, fetchedAt }: HeldDocument): number | undefined {
  return lastUpdated === undefined ? undefined : Math.min(lastUpdated, fetchedAt)
}

function latest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.max(a, b)
}

/** A refresh failed. After a fault the document stays until its stale cap; the answer "there is no file" ends it. */
export function failing(record: ProviderRecord, failure: Failure, now: number): ProviderRecord {
  const since = failure.passing && record.problem?.passing ? record.problem.since : now
  const problem = { ...failure, since }
  if (failure.passing) return { ...record, problem, checkedAt: now }
  const { document, confirmedAt, ...rest } = record
  return { ...rest, problem, checkedAt: now }
}

/** The well-known url answered with something other than a pointer: a watched pointer has not stayed the same. */
export function withdrawn(record: ProviderRecord, failure: Failure): ProviderRecord {
  if (failure.passing) return record
  const { pending, ...rest } = record
  return rest
}

/** Drops the document, valid as it is, because there is no memory for it. */
export function evicted(record: ProviderRecord, now: number): ProviderRecord {
  const message = 'the file takes more room than its share of limits.provider_bytes'
  const { document, confirmedAt, ...rest } = record
  return { ...rest, problem: { reason: 'over_budget', message, since: now, passing: false } }
}

/**
 * A changed pointer is on hold and nothing was fetched: what is held stays in force. The provider answers, so no failure of
 * before counts on.
 */
export function holding(record: ProviderRecord, now: number): ProviderRecord {
  const { problem, ...rest } = record
  if (record.document) return { ...rest, checkedAt: now }
  const message = 'a changed pointer is on hold, and no earlier file is held'
  return failing(record, { reason: 'held_pointer', message, passing: false }, now)
}

/** The record without what has expired by now. */
export function expired(record: ProviderRecord, now: number): ProviderRecord {
  const { document, confirmedAt, adopted, ...rest } = record
  const kept = lastAdoption(record, now)
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

/** The changed pointer that the last look left on hold. */
export function onHold({ pending, problem }: ProviderRecord): ProviderRecord['pending'] {
  return !problem || problem.reason === 'held_pointer' ? pending : undefined
}

/** A number in [0, 1) computed from the domain: spreads refreshes without randomness. */
function spread(domain: string): number {
  return Number.parseInt(hash('sha256', domain).slice(0, 8), 16) / 2 ** 32
}

/**
 * When to look at the provider again, ms: a little before `refreshMs` has passed while all is well, sooner after a problem,
 * and at the end of a pointer's hold.
 */
export function nextAttempt(record: ProviderRecord, now: number, refreshMs: number): number {
  const { domain, problem, pending, adopted } = record
  const regular = now + refreshMs * (1 - spread(domain) / 10)
  if (problem?.passing) {
    // Two kinds wait longest. A server that answers with something else than a file may send megabytes each time. A
    // name that never had a file may be invented, and must not take the place of others.
    const isDown = problem.reason === 'unreachable'
    const ceiling = adopted && isDown ? MAX_RETRY_MS : MAX_RECHECK_MS
    return Math.min(regular, now + Math.min(ceiling, Math.max(MIN_RETRY_MS, now - problem.since)))
  }
  // There is room only after another file is dropped; a fetch before that would end the same way.
  const isBroken = problem && problem.reason !== 'over_budget'
  const recheck = isBroken ? Math.min(regular, now + MAX_RECHECK_MS) : regular
  // A hold that has ended is followed at the next attempt, which comes at the regular pace.
  const adoptAt = pending ? pending.since + POINTER_HOLD_MS : 0
  return adoptAt > now ? Math.min(recheck, adoptAt) : recheck
}
