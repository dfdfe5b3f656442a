/**
 * Owns what is known of every provider: fetches, conditional refreshes, holds, caps and their survival over
 * restarts (FACTS 7). Many signals of one provider cost one fetch; thousands of providers share a few connections.
 */
import { hash } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import pLimit from 'p-limit'
import type { Clock } from '../net/clock.js'
import type { Send } from '../net/send.js'
import type { Blobs } from '../upstreams/blobs.js'
import { createArchive } from './archive.js'
import { providerDomain, wellKnownUrl } from './domain.js'
import { getWellKnown } from './file.js'
import { createInspector } from './inspector.js'
import { createLibrary, type TargetOutcome } from './library.js'
import {
  expired,
  failing,
  holding,
  type ProviderRecord,
  pointed,
  received,
  stateOf,
  withdrawn,
} from './record.js'
import { POINTER_HOLD_MS, type ProviderState } from './state.js'

const DAY_MS = 24 * 3_600_000
const MAX_PROVIDERS = 50_000 // rows name their providers freely: an upstream must not make us ask the whole world
const SHARED_FRESH_MS = 300_000
const MIN_RETRY_MS = 1_000
const MAX_RETRY_MS = 60_000 // DESIGN 6: a recovered server never waits longer
const FIRST_SWEEP_MS = 300_000
const MAX_RECHECK_MS = 600_000 // a provider that publishes or repairs its file sees it read soon

export type ProvidersOptions = {
  send: Send
  blobs: Blobs
  clock: Clock
  /** Time between refreshes of a provider that answers; at most a day (FACTS 7). */
  refreshMs: number
  /** Providers fetched at the same time. */
  concurrency: number
  log: { info(fields: object, message: string): void; warn(fields: object, message: string): void }
  /** The operator's word that a changed pointer is right, which ends its hold. */
  confirmPointer?: (domain: string, url: string) => boolean
}

export type Providers = ReturnType<typeof createProviders>

type Held = { record: ProviderRecord; dueAt: number; busy: Promise<void>; loaded: boolean }

/** A number in [0, 1) that belongs to the domain: spreads refreshes without chance. */
function spread(domain: string): number {
  return Number.parseInt(hash('sha256', domain).slice(0, 8), 16) / 2 ** 32
}

function nextAttempt(record: ProviderRecord, now: number, refreshMs: number): number {
  const { domain, problem, pending, adopted } = record
  const regular = now + refreshMs * (1 - spread(domain) / 10)
  if (problem?.passing) {
    // Names that never led to a file may be anyone's invention: they do not get to crowd out the others.
    const ceiling = adopted ? MAX_RETRY_MS : MAX_RECHECK_MS
    return Math.min(regular, now + Math.min(ceiling, Math.max(MIN_RETRY_MS, now - problem.since)))
  }
  const recheck = problem ? Math.min(regular, now + MAX_RECHECK_MS) : regular
  // A hold that has run out is followed at the next attempt: past instants add nothing to the regular pace.
  const adoptAt = pending ? pending.since + POINTER_HOLD_MS : 0
  return adoptAt > now ? Math.min(recheck, adoptAt) : recheck
}

/** Equal marks, equal verdicts for as long as no window and no cap passes. */
function mark({ document, problem, heldPointer }: ProviderState): string {
  const failing = document && problem ? problem.since : ''
  return `${document?.digest ?? problem?.reason} ${document?.url} ${failing} ${heldPointer?.url}`
}

function seen({ record, dueAt }: Held): ProviderState {
  return stateOf(record, Number.isFinite(dueAt) ? dueAt : undefined)
}

function badDomain(domain: string): ProviderState {
  const message = 'not the name of a registrable domain'
  return { domain, problem: { reason: 'bad_domain', message, since: 0, passing: false } }
}

export function createProviders(options: ProvidersOptions) {
  const { clock, log, blobs } = options
  const refreshMs = Math.min(options.refreshMs, DAY_MS)
  const held = new Map<string, Held>()
  const bad = new Map<string, ProviderState>()
  const listeners = new Set<(domain: string) => void>()
  const limit = pLimit(options.concurrency)
  const closing = new AbortController()
  setMaxListeners(options.concurrency + 1, closing.signal) // one a request under way: no leak to warn of
  const examine = createInspector()
  const files = { send: options.send, examine, now: clock.now, signal: closing.signal }
  const library = createLibrary({ ...files, freshMs: Math.min(SHARED_FRESH_MS, refreshMs / 2) })
  const archive = createArchive(blobs, clock.now)
  let cancelTimer = () => {}
  let cancelSweep = clock.after(FIRST_SWEEP_MS, () => void sweep())

  function states(): readonly ProviderState[] {
    return [...bad.values(), ...[...held.values()].map(seen)]
  }

  function state(domain: string): ProviderState | undefined {
    const entry = held.get(providerDomain(domain) ?? domain)
    return entry ? seen(entry) : bad.get(domain)
  }

  function locations(): Set<string> {
    const urls = new Set<string>()
    for (const { record } of held.values()) {
      if (record.adopted?.location) urls.add(record.adopted.location)
      if (record.pending) urls.add(record.pending.url)
      if (record.front) urls.add(record.front.target)
    }
    return urls
  }

  function tell(before: ProviderState, after: ProviderState): void {
    const { domain, document, problem, heldPointer } = after
    if (heldPointer && heldPointer.url !== before.heldPointer?.url) {
      log.warn(
        { domain, adoptAt: heldPointer.adoptAt },
        'provider changed its pointer: held, the old file stays',
      )
    }
    if (problem && problem.reason !== before.problem?.reason) {
      log.warn(
        { domain, reason: problem.reason, kept: document !== undefined },
        `provider: ${problem.message}`,
      )
    }
    if (document && document.digest !== before.document?.digest) {
      log.info({ domain, bytes: document.bytes.byteLength }, 'provider file in use')
    }
  }

  function replace(entry: Held, record: ProviderRecord): void {
    const before = seen(entry)
    entry.record = record
    entry.dueAt = nextAttempt(record, clock.now(), refreshMs)
    const after = seen(entry)
    tell(before, after)
    if (mark(before) !== mark(after)) for (const listener of listeners) listener(record.domain)
  }

  /** The record after its pointer was looked at, and after its target was when that may be followed. */
  async function follow(record: ProviderRecord, location: string, anew: boolean): Promise<ProviderRecord> {
    const { domain } = record
    const confirmed = options.confirmPointer?.(domain, location) === true
    const sight = pointed(record, location, clock.now(), confirmed)
    const kept = sight.follow ? location : record.document && record.adopted?.location
    if (kept === undefined) return holding(sight.record, clock.now())
    const outcome: TargetOutcome = await library.get(kept, anew)
    if (outcome.kind === 'document') return received(sight.record, outcome.document, kept, clock.now())
    // While a new pointer is on hold the old file is kept: that it is gone from its place ends nothing yet.
    return failing(sight.record, sight.follow ? outcome : { ...outcome, passing: true }, clock.now())
  }

  /** One complete look at what a provider publishes now. */
  async function look(before: ProviderRecord, anew: boolean): Promise<ProviderRecord> {
    const { domain, front } = before
    const inline = before.adopted?.location === undefined ? before.document : undefined
    const outcome = await getWellKnown(files, domain, wellKnownUrl(domain), front ?? inline)
    const record = expired(before, clock.now())
    if (outcome.kind === 'failed') return failing(withdrawn(record, outcome), outcome, clock.now())
    if (outcome.kind === 'pointer') {
      const { target, answered } = outcome
      return follow({ ...record, front: { ...answered, target } }, target, anew)
    }
    if (outcome.kind === 'unchanged' && front) return follow(record, front.target, anew)
    const document = outcome.kind === 'document' ? outcome.document : inline
    const { front: past, ...unpointed } = pointed(record, undefined, clock.now(), false).record
    if (!document) throw new Error(`${domain}: "unchanged" was believed of a file that is not held`)
    return received(unpointed, document, undefined, clock.now())
  }

  async function load(entry: Held): Promise<void> {
    const record = await archive.load(entry.record.domain)
    entry.loaded = true
    if (!record) return
    const { document, adopted } = record
    const sharedDocument = document && adopted?.location && library.restore(adopted.location, document)
    replace(entry, expired(sharedDocument ? { ...record, document: sharedDocument } : record, clock.now()))
  }

  async function visit(entry: Held, anew: boolean): Promise<void> {
    const { domain } = entry.record
    try {
      if (!entry.loaded) {
        await load(entry)
        if (entry.record.document && !anew) {
          entry.dueAt = nextAttempt(entry.record, entry.record.checkedAt ?? 0, refreshMs)
          return
        }
      }
      const record = await look(entry.record, anew)
      if (closing.signal.aborted || held.get(domain) !== entry) return
      const moved = record.front?.target !== entry.record.front?.target
      replace(entry, record)
      if (moved) library.retain(locations())
      await archive.save(record)
    } catch (error) {
      // Only the disk fails here: what is held in memory stays right, and the next visit saves again.
      log.warn({ domain, error }, 'provider record could not be read or saved')
      entry.loaded = true
      entry.dueAt = nextAttempt(entry.record, clock.now(), refreshMs)
    }
  }

  /** Visits of one provider follow one another; visits of all share the connections. */
  function enqueue(entry: Held, anew: boolean): Promise<void> {
    entry.dueAt = Number.POSITIVE_INFINITY
    entry.busy = entry.busy
      .then(() => limit(async () => (closing.signal.aborted ? undefined : visit(entry, anew))))
      .finally(schedule)
    return entry.busy
  }

  function schedule(): void {
    cancelTimer()
    if (closing.signal.aborted) return
    let first = Number.POSITIVE_INFINITY
    for (const { dueAt } of held.values()) first = Math.min(first, dueAt)
    if (first === Number.POSITIVE_INFINITY) return
    cancelTimer = clock.after(first - clock.now(), () => {
      const now = clock.now()
      for (const entry of held.values()) if (entry.dueAt <= now) void enqueue(entry, false)
      schedule()
    })
  }

  /** The providers that the feed's signals name, whole and now: others are let go of. */
  function want(domains: Iterable<string>): void {
    const wanted = new Set<string>()
    bad.clear()
    for (const text of domains) {
      const domain = providerDomain(text)
      if (!domain) bad.set(text, badDomain(text))
      else if (wanted.size < MAX_PROVIDERS) wanted.add(domain)
      else {
        log.warn({ limit: MAX_PROVIDERS }, 'more providers are named than are looked at')
        break
      }
    }
    for (const domain of held.keys()) if (!wanted.has(domain)) held.delete(domain)
    for (const domain of wanted) {
      if (held.has(domain)) continue
      const entry: Held = { record: { domain }, dueAt: 0, busy: Promise.resolve(), loaded: false }
      held.set(domain, entry)
      void enqueue(entry, false)
    }
    library.retain(locations())
    schedule()
  }

  /** Resolves when each wanted provider has a document from an earlier run or an answer to its first fetch. */
  async function settled(): Promise<void> {
    await Promise.all([...held.values()].map(({ busy }) => busy))
  }

  /** Looks at the provider now; undefined when it is not wanted. */
  async function refresh(domain: string): Promise<ProviderState | undefined> {
    const entry = held.get(providerDomain(domain) ?? domain)
    if (entry) await enqueue(entry, true)
    return state(domain)
  }

  function onChange(listener: (domain: string) => void): () => void {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }

  async function sweep(): Promise<void> {
    try {
      const digests = new Set<string>()
      for (const { record } of held.values()) if (record.document) digests.add(record.document.digest)
      await archive.sweep((domain) => held.has(domain), digests)
    } catch (error) {
      log.warn({ error }, 'provider records could not be swept') // the next sweep finds them again
    }
    if (!closing.signal.aborted) cancelSweep = clock.after(DAY_MS, () => void sweep())
  }

  /** Ends what is under way; what was learned is saved. */
  async function close(): Promise<void> {
    closing.abort()
    cancelTimer()
    cancelSweep()
    await settled()
    listeners.clear()
  }

  return { want, settled, states, state, onChange, refresh, close }
}
