/**
 * Owns what is known of every provider: fetches, conditional refreshes, holds, caps and their survival over restarts
 * (docs/protocol.md#provider-files). Many signals of one provider cost one fetch; thousands of providers share a few
 * connections.
 */
import { setMaxListeners } from 'node:events'
import pLimit from 'p-limit'
import type { Clock } from '../../net/clock.js'
import type { Send } from '../../net/send.js'
import type { Blobs } from '../../upstreams/blobs.js'
import type { ProviderState } from '../state.js'
import { createArchive } from './archive.js'
import { providerDomain } from './domain.js'
import { createInspector } from './inspector.js'
import { createLibrary } from './library.js'
import { createLook } from './look.js'
import { nextAttempt } from './pace.js'
import { expired, type ProviderRecord, stateOf } from './record.js'

const DAY_MS = 24 * 3_600_000
const MAX_PROVIDERS = 50_000 // rows name their providers freely: an upstream must not make us ask the whole world
const SHARED_FRESH_MS = 300_000
const FIRST_SWEEP_MS = 300_000
const MIN_PAUSE_MS = 100

export type ProvidersOptions = {
  send: Send
  blobs: Blobs
  clock: Clock
  /** Time between refreshes of a provider that answers; at most a day (docs/protocol.md#provider-files). */
  refreshMs: number
  /** Providers fetched at the same time. */
  concurrency: number
  log: { info(fields: object, message: string): void; warn(fields: object, message: string): void }
  /** The operator's word that a changed pointer is right, which ends its hold. */
  confirmPointer?: (domain: string, url: string) => boolean
}

export type Providers = ReturnType<typeof createProviders>

type Held = { record: ProviderRecord; dueAt: number; busy: Promise<void>; loaded: boolean }

/** Equal marks, equal verdicts for as long as no window and no cap passes. */
function mark({ document, problem, heldPointer }: ProviderState): string {
  const failing = document && problem ? problem.since : ''
  return `${document?.digest ?? problem?.reason} ${document?.url} ${failing} ${heldPointer?.url}`
}

function seen({ record, dueAt }: Held): ProviderState {
  return stateOf(record, Number.isFinite(dueAt) ? dueAt : undefined)
}

function badDomain(domain: string, since: number): ProviderState {
  const message = 'not the name of a registrable domain'
  return { domain, problem: { reason: 'bad_domain', message, since, passing: false } }
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
  const inspector = createInspector()
  const { examine } = inspector
  const files = { send: options.send, examine, now: clock.now, signal: closing.signal }
  const library = createLibrary({ ...files, freshMs: Math.min(SHARED_FRESH_MS, refreshMs / 2) })
  const look = createLook({ files, library, confirmPointer: options.confirmPointer })
  const archive = createArchive({ blobs, examine, now: clock.now })
  let wakeAt = Number.POSITIVE_INFINITY
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

  async function load(entry: Held): Promise<void> {
    const { domain } = entry.record
    entry.loaded = true
    const record = await archive.load(domain).catch((error) => {
      // Without its past the provider is one seen for the first time.
      log.warn({ domain, err: error }, 'provider record could not be read')
      return undefined
    })
    if (!record) return
    const { document, adopted } = record
    const sharedDocument = document && adopted?.location && library.restore(adopted.location, document)
    replace(entry, expired(sharedDocument ? { ...record, document: sharedDocument } : record, clock.now()))
  }

  async function visit(entry: Held, anew: boolean): Promise<void> {
    const { domain } = entry.record
    const wanted = () => !closing.signal.aborted && held.get(domain) === entry
    if (!wanted()) return
    try {
      if (!entry.loaded) {
        await load(entry)
        if (entry.record.document && !anew) {
          entry.dueAt = nextAttempt(entry.record, entry.record.checkedAt ?? 0, refreshMs)
          return
        }
      }
      const record = await look(entry.record, anew)
      if (!wanted()) return
      replace(entry, record)
      await archive.save(record)
    } catch (error) {
      // A failing disk, or a fault of ours: what is held in memory stays right, and the next visit tries again.
      log.warn({ domain, err: error }, 'provider could not be looked at or saved')
      entry.dueAt = Math.min(entry.dueAt, nextAttempt(entry.record, clock.now(), refreshMs))
    }
  }

  /** Visits of one provider follow one another; visits of all share the connections. */
  function enqueue(entry: Held, anew: boolean): Promise<void> {
    entry.dueAt = Number.POSITIVE_INFINITY
    entry.busy = entry.busy.then(() => limit(() => visit(entry, anew))).finally(() => wakeBy(entry.dueAt))
    return entry.busy
  }

  function wake(): void {
    wakeAt = Number.POSITIVE_INFINITY
    const now = clock.now()
    let next = Number.POSITIVE_INFINITY
    for (const entry of held.values()) {
      if (entry.dueAt <= now) void enqueue(entry, false)
      else next = Math.min(next, entry.dueAt)
    }
    wakeBy(next)
  }

  /** One timer for all: each wake looks through every provider, so they are kept apart. */
  function wakeBy(dueAt: number): void {
    const at = Math.max(dueAt, clock.now() + MIN_PAUSE_MS)
    if (at >= wakeAt || closing.signal.aborted) return
    cancelTimer()
    wakeAt = at
    cancelTimer = clock.after(at - clock.now(), wake)
  }

  /** The providers that the feed's signals name, whole and now: others are let go of. */
  function want(domains: Iterable<string>): void {
    const wanted = new Set<string>()
    bad.clear()
    for (const text of domains) {
      if (wanted.size + bad.size === MAX_PROVIDERS) {
        log.warn({ limit: MAX_PROVIDERS }, 'more providers are named than are looked at')
        break
      }
      const domain = providerDomain(text)
      if (!domain) bad.set(text, badDomain(text, clock.now()))
      else wanted.add(domain)
    }
    for (const domain of held.keys()) if (!wanted.has(domain)) held.delete(domain)
    for (const domain of wanted) {
      if (held.has(domain)) continue
      const entry: Held = { record: { domain }, dueAt: 0, busy: Promise.resolve(), loaded: false }
      held.set(domain, entry)
      void enqueue(entry, false)
    }
    library.retain(locations())
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
    library.retain(locations())
    try {
      const digests = new Set<string>()
      for (const { record } of held.values()) if (record.document) digests.add(record.document.digest)
      await archive.sweep((domain) => held.has(domain), digests)
    } catch (error) {
      log.warn({ err: error }, 'provider records could not be swept') // the next sweep finds them again
    }
    if (!closing.signal.aborted) cancelSweep = clock.after(DAY_MS, () => void sweep())
  }

  /** Ends what is under way; what was learned is saved. */
  async function close(): Promise<void> {
    closing.abort()
    cancelTimer()
    cancelSweep()
    await settled()
    await inspector.close()
    listeners.clear()
  }

  return { want, settled, states, state, onChange, refresh, close }
}
