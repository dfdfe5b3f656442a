/**
 * Everything remembered about one provider, and how one look at it changes that (docs/protocol.md#provider-files). The stale
 * and hard caps, the rollback refusal and the pointer hold are pure steps in time. The last adoption is remembered longer
 * than the document itself. Otherwise a provider could fail for a while and then come back with an older file or another
 * pointer. A look reads the well-known file, the pointer in it, and the file that the pointer names; the steps say what
 * the answers mean for the record. Records outlive the process, because the caps, the pointer hold and the rollback refusal would
 * mean little if a restart reset them. Documents are stored by digest, so that providers that share one store it once, with the
 * tables made from it as parts of the blob: to read all documents again takes longer than all else of a restart.
 */
import { hash } from 'node:crypto'
import { sharedBytes } from '../../upstreams/rows/slab.js'
import type { Blobs, Sharing, Turn } from '../../upstreams/rows/storage.js'
import {
  expiryOf,
  HARD_CAP_MS,
  type HeldDocument,
  POINTER_HOLD_MS,
  type ProviderState,
  VERDICT_REASONS,
} from '../rules/verdict.js'
import { wellKnownUrl } from './domains.js'
import {
  type Failure,
  type FileOptions,
  getWellKnown,
  type KnownFile,
  type Library,
  tableParts,
  tablesFrom,
} from './files.js'
import type { Examine } from './inspector.js'

const MIN_RETRY_MS = 1_000
const MAX_RETRY_MS = 60_000 // docs/configuration.md: a recovered server never waits longer
const MAX_RECHECK_MS = 600_000 // a provider that publishes or repairs its file is read again soon

const RECORDS = 'provider/'
const DOCUMENTS = 'provider-document/'
const VERSION = 1

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

/** What is remembered of the last adoption: for as long as its document could have been in force. */
function lastAdoption({ adopted }: ProviderRecord, now: number): ProviderRecord['adopted'] {
  return adopted && now < adopted.at + HARD_CAP_MS ? adopted : undefined
}

/** Where the provider now says its file is; `follow` tells whether the pointer may be followed yet. */
function pointed(
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
function received(
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
  const { problem, pending, ...rest } = record
  return {
    ...rest,
    ...(pending && pending.url !== location && { pending }),
    document: same ? { ...document, fetchedAt: record.document.fetchedAt } : document,
    confirmedAt: now,
    // A file dated in the future counts as written now; otherwise its own correction would be refused as older.
    adopted: { location, lastUpdated: latest(floor, document.lastUpdated, now), at: now },
    checkedAt: now,
  }
}

function latest(floor: number | undefined, lastUpdated: number | undefined, now: number): number | undefined {
  return lastUpdated === undefined ? floor : Math.min(lastUpdated, now)
}

/** A refresh failed. After a fault the document stays until its stale cap; the answer "there is no file" ends it. */
function failing(record: ProviderRecord, failure: Failure, now: number): ProviderRecord {
  const since = failure.passing && record.problem?.passing ? record.problem.since : now
  const problem = { ...failure, since }
  if (failure.passing) return { ...record, problem, checkedAt: now }
  const { document, confirmedAt, ...rest } = record
  return { ...rest, problem, checkedAt: now }
}

/** The well-known url answered with something other than a pointer: a watched pointer has not stayed the same. */
function withdrawn(record: ProviderRecord, failure: Failure): ProviderRecord {
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
function holding(record: ProviderRecord, now: number): ProviderRecord {
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

/** What other threads and people see of it. */
export function stateOf(record: ProviderRecord, nextAttemptAt: number | undefined): ProviderState {
  const { domain, document, confirmedAt, pending, problem } = record
  return {
    domain,
    ...(document && confirmedAt !== undefined && { document, confirmedAt }),
    ...(confirmedAt !== undefined && { expiresAt: expiryOf(confirmedAt, problem) }),
    ...(pending && { heldPointer: { ...pending, adoptAt: pending.since + POINTER_HOLD_MS } }),
    ...(problem && { problem }),
    ...(nextAttemptAt !== undefined && { nextAttemptAt }),
  }
}

export type WhySkipped = 'bad_domain' | 'too_many_domains'

/** The state of a domain that upstreams name but that is not looked at. */
export function skippedState(domain: string, reason: WhySkipped, since: number): ProviderState {
  return { domain, problem: { reason, message: VERDICT_REASONS[reason], since, passing: false } }
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

export type ProviderLog = {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

/** Writes one log line for each change of what is held of a provider. */
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

type LookOptions = {
  files: FileOptions
  library: Library
  confirmPointer?: (domain: string, url: string) => boolean
}

/**
 * Looks at a provider and returns its next record. With `anew` a shared file is fetched even when it was fetched just
 * now.
 */
export function createLook({ files, library, confirmPointer }: LookOptions) {
  /** The record after its pointer was read, and after the pointer's target was, when the pointer may be followed. */
  async function follow(record: ProviderRecord, location: string, anew: boolean): Promise<ProviderRecord> {
    const { domain } = record
    const confirmed = confirmPointer?.(domain, location) === true
    const next = pointed(record, location, files.now(), confirmed)
    const kept = next.follow ? location : record.document && record.adopted?.location
    if (kept === undefined) return holding(next.record, files.now())
    const outcome = await library.get(kept, anew)
    if (outcome.kind === 'document') return received(next.record, outcome.document, kept, files.now())
    // While a new pointer is on hold the old file is kept: its absence at the old place ends nothing yet.
    return next.follow ? failing(next.record, outcome, files.now()) : holding(next.record, files.now())
  }

  return async function look(before: ProviderRecord, anew: boolean): Promise<ProviderRecord> {
    const { domain, front } = before
    const inline = before.adopted?.location === undefined ? before.document : undefined
    const outcome = await getWellKnown(files, domain, wellKnownUrl(domain), front ?? inline)
    const record = expired(before, files.now())
    if (outcome.kind === 'failed') return failing(withdrawn(record, outcome), outcome, files.now())
    if (outcome.kind === 'pointer') {
      const { target, answered } = outcome
      return follow({ ...record, front: { ...answered, target } }, target, anew)
    }
    if (outcome.kind === 'unchanged' && front) return follow(record, front.target, anew)
    const document = outcome.kind === 'document' ? outcome.document : inline
    const { front: past, ...unpointed } = pointed(record, undefined, files.now(), false).record
    if (!document) throw new Error(`${domain}: "unchanged" was believed of a file that is not held`)
    return received(unpointed, document, undefined, files.now())
  }
}

type Stored = {
  version: number
  record: ProviderRecord & { document?: Omit<HeldDocument, 'bytes' | 'tables'> }
}

/**
 * An instant from before the clock was set back may lie in the future: it is moved to now, because it would lengthen
 * every cap.
 */
function clamped(record: ProviderRecord, now: number): ProviderRecord {
  const { document, confirmedAt, adopted, pending, problem } = record
  return {
    ...record,
    ...(document && { document: { ...document, fetchedAt: Math.min(document.fetchedAt, now) } }),
    ...(confirmedAt !== undefined && { confirmedAt: Math.min(confirmedAt, now) }),
    ...(adopted && { adopted: { ...adopted, at: Math.min(adopted.at, now) } }),
    ...(pending && { pending: { ...pending, since: Math.min(pending.since, now) } }),
    ...(problem && { problem: { ...problem, since: Math.min(problem.since, now) } }),
  }
}

type ArchiveOptions = {
  blobs: Blobs
  sharing: Sharing | undefined
  examine: Examine
  now: () => number
}

/** Loads, saves and sweeps records. `examine` reads documents that were saved without tables of this release. */
export function createArchive({ blobs, sharing, examine, now }: ArchiveOptions) {
  /** Digests known to be on disk, with tables of this release. */
  const stored = new Set<string>()

  async function readRecord(domain: string): Promise<Stored['record'] | undefined> {
    const parts = await blobs.read(`${RECORDS}${domain}`)
    if (!parts?.[0]) return undefined
    const { version, record } = JSON.parse(Buffer.from(parts[0]).toString()) as Stored
    return version === VERSION && record.domain === domain ? record : undefined
  }

  /** The document with its tables, which are made again when this release has not saved them. */
  async function readDocument(digest: string): Promise<Pick<HeldDocument, 'bytes' | 'tables'> | undefined> {
    const [bytes, ...saved] = (await blobs.read(`${DOCUMENTS}${digest}`)) ?? []
    if (!bytes) return undefined
    const tables = tablesFrom(saved)
    if (tables) {
      stored.add(digest)
      return { bytes: new Uint8Array(sharedBytes(bytes)), tables }
    }
    const { inspection, bytes: shared } = await examine(bytes)
    return inspection.kind === 'document' ? { bytes: shared, tables: inspection.tables } : undefined
  }

  async function load(domain: string): Promise<ProviderRecord | undefined> {
    const record = await readRecord(domain)
    if (!record) return undefined
    const { document, confirmedAt, ...rest } = record
    const held = document && (await readDocument(document.digest))
    return clamped(held ? { ...rest, document: { ...document, ...held }, confirmedAt } : rest, now())
  }

  /**
   * The document is written first, so that a record never names a missing one. False when this process has lost the
   * turn: nothing was saved.
   */
  async function save(record: ProviderRecord, turn: Turn): Promise<boolean> {
    const { document, ...rest } = record
    if (document && !stored.has(document.digest)) {
      await blobs.write(`${DOCUMENTS}${document.digest}`, [document.bytes, ...tableParts(document.tables)])
      stored.add(document.digest)
    }
    const { bytes, tables, ...described } = document ?? {}
    const value = { version: VERSION, record: { ...rest, ...(document && { document: described }) } }
    const name = `${RECORDS}${record.domain}`
    const parts = [Buffer.from(JSON.stringify(value))]
    if (sharing) return sharing.write(name, parts, turn)
    await blobs.write(name, parts)
    return true
  }

  /** Removes records of providers that are no longer wanted and hold nothing, and documents that no record names. */
  async function sweep(wanted: (domain: string) => boolean, inUse: ReadonlySet<string>): Promise<void> {
    const named = new Set(inUse)
    for (const name of await blobs.list(RECORDS)) {
      const domain = name.slice(RECORDS.length)
      const record = await readRecord(domain)
      const over = !record?.adopted || now() >= record.adopted.at + HARD_CAP_MS
      if (over && !wanted(domain)) await blobs.remove(name)
      else if (record?.document) named.add(record.document.digest)
    }
    for (const name of await blobs.list(DOCUMENTS)) {
      const digest = name.slice(DOCUMENTS.length)
      if (named.has(digest)) continue
      stored.delete(digest)
      await blobs.remove(name)
    }
  }

  return { load, save, sweep }
}
