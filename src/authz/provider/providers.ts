/**
 * Everything known of every provider: fetches, conditional refreshes, holds, caps, and how they survive restarts
 * (docs/protocol.md#provider-files). Many signals of one provider cost one fetch; thousands of providers share a few
 * connections.
 */
import pLimit from 'p-limit'
import type { Clock } from '../../net/clock.js'
import type { Send } from '../../net/send.js'
import { createFairQueue } from '../../process/fair-queue.js'
import { nextOwnPortion } from '../../process/portion-turns.js'
import { type Blobs, EVERY_TURN, type Sharing } from '../../upstreams/rows/storage.js'
import type { ProviderState } from '../rules/verdict.js'
import { createAlarm } from './alarm.js'
import { createArchive } from './archive.js'
import { createShares, createWanted, type NamedDomains, registrableDomain, type Wanted } from './domains.js'
import { createLibrary, createRoom } from './files.js'
import { createInspector } from './inspector.js'
import { createLook } from './look.js'
import { evicted, expired, locationsOf, nextAttempt, type ProviderRecord } from './record.js'
import { createSkipped, mark, type ProviderLog, stateOf, tellChange } from './state.js'

const DAY_MS = 24 * 3_600_000
const SHARED_FRESH_MS = 300_000
const FIRST_SWEEP_MS = 300_000
const FETCH_MS = 10_000
const LOADING = 8 // records read from disk at once

export type ProvidersOptions = {
  send: Send
  blobs: Blobs
  /** How processes that share a storage divide the providers. Absent when this process is alone. */
  sharing?: Sharing
  clock: Clock
  /** Time between refreshes of a provider that answers; at most a day (docs/protocol.md#provider-files). */
  refreshMs: number
  /** How many providers are fetched at once. One owner may use at most half, one registrable domain an eighth. */
  concurrency: number
  /** The current limits on what files of strangers may cost. */
  limits: () => ProviderLimits
  log: ProviderLog
  /** The operator's confirmation that a changed pointer is right, which ends its hold. */
  confirmPointer?: (domain: string, url: string) => boolean
}

type ProviderLimits = {
  /** How many domains of one upstream are looked at. */
  domainsPerUpstream: number
  /** Bytes of all files that are held, with the tables made from them. */
  bytes: number
}

/** Receives what was known of a provider before and what is known now. */
export type ProviderListener = (before: ProviderState, after: ProviderState) => void

export type Providers = ReturnType<typeof createProviders>

type Held = {
  record: ProviderRecord
  dueAt: number
  busy: Promise<void>
  /** It has a document from an earlier run, or an answer to its first fetch. */
  isRead: boolean
  /** Resolves when the record that the storage has, of an earlier run or of another process, has been loaded. */
  loaded: Promise<void>
  /** Whether the storage has what was last read of it. If not, only this process knows it. */
  isSaved: boolean
  /** Called when another process has looked at it, or when this one becomes responsible. */
  answered(): void
  /** The state that other threads and people see, cached until it changes. */
  state?: ProviderState
}

/** The same object until something changes, so that only changed states need to be posted to another thread. */
function seen(entry: Held): ProviderState {
  entry.state ??= stateOf(entry.record, Number.isFinite(entry.dueAt) ? entry.dueAt : undefined)
  return entry.state
}

export function createProviders(options: ProvidersOptions) {
  const { clock, log, blobs, sharing, concurrency, limits } = options
  const refreshMs = Math.min(options.refreshMs, DAY_MS)
  const held = new Map<string, Held>()
  const skipped = createSkipped(log, clock.now)
  /** Of the providers that are wanted. What is held of others is yet to be saved. */
  let owners: Wanted['owners'] = new Map()
  const { domainOf, wantedOf } = createWanted()
  const listeners = new Set<ProviderListener>()
  const fetching = createFairQueue({
    total: concurrency,
    perOwner: Math.max(1, concurrency >> 1),
    perGroup: Math.max(1, concurrency >> 3),
  })
  const loading = pLimit(LOADING)
  const room = createRoom({
    bytes: () => limits().bytes,
    ownersOf: (domain) => owners.get(domain) ?? [],
    onEvicted: evict,
  })
  const closing = new AbortController()
  const inspector = createInspector()
  const { examine } = inspector
  const files = { send: options.send, examine, now: clock.now, signal: closing.signal }
  const library = createLibrary({ ...files, freshMs: Math.min(SHARED_FRESH_MS, refreshMs / 2) })
  const { look, isConfirmed } = createLook({ files, library, confirmPointer: options.confirmPointer })
  const shares = createShares(sharing ?? EVERY_TURN, sharing)
  const archive = createArchive({ blobs, sharing, examine, now: clock.now })
  let asked: { named: NamedDomains; perUpstream: number } | undefined
  const alarm = createAlarm(clock, wake)
  let cancelSweep = clock.after(FIRST_SWEEP_MS, () => void sweep())

  const wanted = () => [...held.values()].filter(({ record }) => owners.has(record.domain))

  function states(): readonly ProviderState[] {
    return [...skipped.states(), ...wanted().map(seen)]
  }

  function entryOf(name: string): Held | undefined {
    const domain = domainOf(name) ?? name
    return owners.has(domain) ? held.get(domain) : undefined
  }

  /** Looks a provider up by its domain, or by the name that a row gives it. */
  function state(name: string): ProviderState | undefined {
    const entry = entryOf(name)
    return entry ? seen(entry) : skipped.state(domainOf(name) ?? name)
  }

  const locations = () => new Set([...held.values()].flatMap(({ record }) => locationsOf(record)))

  function replace(entry: Held, record: ProviderRecord): void {
    const before = seen(entry)
    entry.record = record
    setDue(entry, dueAfter(record, clock.now()))
    const after = seen(entry)
    tellChange(log, before, after)
    tell(before, after)
    room.changed(before, record.document)
  }

  function tell(before: ProviderState, after: ProviderState): void {
    if (mark(before) !== mark(after)) for (const listener of listeners) listener(before, after)
  }

  /** When it is looked at again: a pointer that was confirmed while it was put on hold, or before this start, is followed now. */
  const dueAfter = (record: ProviderRecord, checkedAt: number) =>
    isConfirmed(record) ? clock.now() : nextAttempt(record, checkedAt, refreshMs)

  /** To be called when the operator may have confirmed pointers: those that are on hold are followed now. */
  function endConfirmedHolds(): void {
    for (const entry of held.values()) {
      if (Number.isFinite(entry.dueAt) && isConfirmed(entry.record)) setDue(entry, clock.now())
    }
    alarm.wakeBy(clock.now())
  }

  function setDue(entry: Held, dueAt: number): void {
    entry.dueAt = dueAt
    delete entry.state
  }

  /** The document is valid but exceeds its share of memory: it is dropped, and without it nothing is proved. */
  function evict(digest: string, users: readonly string[]): void {
    library.drop(digest)
    for (const domain of users) {
      const entry = held.get(domain)
      if (entry?.record.document?.digest === digest) replace(entry, evicted(entry.record, clock.now()))
    }
  }

  async function load(entry: Held): Promise<void> {
    const { domain } = entry.record
    const record = await archive.load(domain).catch((error) => {
      // Without its record the provider counts as one seen for the first time.
      log.warn({ domain, err: error }, 'provider record could not be read')
      return undefined
    })
    if (!record || !isHeld(entry)) return
    entry.isSaved = true
    const { document, adopted } = record
    const sharedDocument = document && adopted?.location && library.restore(adopted.location, document)
    replace(entry, expired(sharedDocument ? { ...record, document: sharedDocument } : record, clock.now()))
    if (entry.record.document) setDue(entry, dueAfter(entry.record, entry.record.checkedAt ?? 0))
  }

  function isHeld(entry: Held): boolean {
    return !closing.signal.aborted && held.get(entry.record.domain) === entry
  }

  async function visit(entry: Held, anew: boolean): Promise<void> {
    const { domain } = entry.record
    await entry.loaded
    const turn = shares.turn(domain)
    if (!isHeld(entry)) return
    if (!turn) return setDue(entry, clock.now()) // in case this process becomes responsible
    try {
      const record = await look(entry.record, anew)
      if (!isHeld(entry)) return
      if (shares.turn(domain)?.epoch !== turn.epoch) return setDue(entry, clock.now())
      entry.isSaved = false
      replace(entry, record)
      if (!(await archive.save(entry.record, turn))) return
      entry.isSaved = true
      letGo([entry])
      await shares.looked(domain, turn, record.problem?.reason !== 'unreachable')
    } catch (error) {
      // A failing disk, or a bug of ours: what is in memory stays valid, and the next visit tries again.
      log.warn({ domain, err: error }, 'provider could not be looked at or saved')
      setDue(entry, Math.min(entry.dueAt, nextAttempt(entry.record, clock.now(), refreshMs)))
    }
  }

  /** Visits the provider when its turn comes: all providers share the connections fairly. */
  function fetchOne(entry: Held, anew: boolean): Promise<void> {
    const { domain } = entry.record
    const turn = { owners: owners.get(domain) ?? [], group: registrableDomain(domain) }
    return fetching.run(turn, async () => {
      await nextOwnPortion() // a new roster may name hundreds of providers at once
      await visit(entry, anew)
    })
  }

  /** Visits of one provider run one after another. */
  function enqueue(entry: Held, anew: boolean): Promise<void> {
    setDue(entry, Number.POSITIVE_INFINITY)
    entry.busy = entry.busy.then(() => fetchOne(entry, anew)).finally(() => alarm.wakeBy(entry.dueAt))
    return entry.busy
  }

  /** Another process has looked: its findings are in the archive. */
  async function follow(domain: string): Promise<void> {
    const entry = held.get(domain)
    if (!entry) return
    entry.loaded = entry.loaded.then(() => (shares.turn(domain) ? undefined : load(entry)))
    await entry.loaded
    entry.answered()
    letGo([entry])
  }

  shares.hear((domain) => void follow(domain))
  shares.onTurns(() => {
    for (const [domain, entry] of held) if (shares.turn(domain)) entry.answered()
    alarm.wakeBy(clock.now())
  })

  /** Starts to follow a provider: with the document of an earlier run, else with its first fetch. */
  function open(domain: string): void {
    let answered = () => {}
    const others = new Promise<void>((resolve) => {
      answered = resolve
    })
    const entry: Held = {
      ...{ record: { domain }, dueAt: Number.POSITIVE_INFINITY, answered, isRead: false, isSaved: true },
      ...{ busy: Promise.resolve(), loaded: Promise.resolve() },
    }
    held.set(domain, entry)
    entry.loaded = loading(() => load(entry))
    entry.busy = entry.loaded
      .then(() =>
        entry.record.document || entry.record.checkedAt || shares.turn(domain) ? undefined : others,
      )
      .then(() => (entry.record.document ? undefined : fetchOne(entry, false)))
      .finally(() => {
        entry.isRead = true
        alarm.wakeBy(entry.dueAt)
      })
  }

  /** Looks at every provider. */
  function wake(): void {
    const now = clock.now()
    let next = Number.POSITIVE_INFINITY
    for (const [domain, entry] of held) {
      if (!shares.turn(domain)) continue
      if (entry.dueAt <= now) void enqueue(entry, false)
      else next = Math.min(next, entry.dueAt)
    }
    alarm.wakeBy(next)
  }

  /** Sets the providers that upstreams' signals name, as a complete list: others are dropped. */
  function want(named: NamedDomains): void {
    const perUpstream = limits().domainsPerUpstream
    if (named === asked?.named && perUpstream === asked.perUpstream) return
    asked = { named, perUpstream }
    const chosen = wantedOf(named, { perUpstream, isHeld: (domain) => held.has(domain) })
    followOnly(chosen.owners)
    skipped.set(chosen, perUpstream)
    library.retain(locations())
  }

  /** Drops what is held of other providers, and starts to follow those that are new. */
  function followOnly(next: Wanted['owners']): void {
    const before = owners
    owners = next
    letGo(held.values())
    for (const domain of owners.keys()) {
      const entry = held.get(domain)
      if (!entry) open(domain)
      else if (!before.has(domain)) tell({ domain }, seen(entry)) // it was not saved yet
    }
    room.reassign()
  }

  /**
   * Drops those of the entries that nobody wants, once the storage has what was read of them. One that is wanted again before
   * that continues with it: an older record would bring back what a newer file has ended.
   */
  function letGo(entries: Iterable<Held>): void {
    const before = room.bytes()
    for (const entry of entries) {
      const { domain } = entry.record
      if (owners.has(domain) || !entry.isSaved || !isHeld(entry)) continue
      held.delete(domain)
      entry.answered()
      room.changed(seen(entry), undefined)
    }
    if (room.bytes() < before) lookAgainForRoom()
  }

  /** A file was dropped, so files that had no room may fit now. */
  function lookAgainForRoom(): void {
    for (const entry of held.values()) {
      if (entry.record.problem?.reason === 'over_budget' && Number.isFinite(entry.dueAt))
        setDue(entry, clock.now())
    }
    alarm.wakeBy(clock.now())
  }

  /** Whether each provider that is wanted now is read. */
  const isSettled = () => wanted().every(({ isRead }) => isRead)

  /** Resolves when each provider that was wanted when it was called is read, and what was due then is looked at. */
  async function settled(): Promise<void> {
    await Promise.all([...held.values()].map(({ busy }) => busy))
  }

  /** The same, but it waits for no provider without an earlier document longer than one fetch may take. */
  async function readOnce(): Promise<void> {
    await Promise.all([...held.values()].map(({ loaded }) => loaded))
    await new Promise<void>((resolve) => {
      const cancel = clock.after(FETCH_MS, resolve)
      void settled().then(() => {
        cancel()
        resolve()
      })
    })
  }

  /** Looks at the provider now; undefined when it is not wanted. */
  async function refresh(domain: string): Promise<ProviderState | undefined> {
    const entry = entryOf(domain)
    if (entry) await enqueue(entry, true)
    return state(domain)
  }

  function onChange(listener: ProviderListener): () => void {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }

  /** What a provider grants to an agent (canonical url) now. */
  const grantedTo = (known: ProviderState, agentUrl: string) =>
    inspector.granted(known, agentUrl, clock.now())

  async function sweep(): Promise<void> {
    library.retain(locations())
    try {
      const digests = new Set<string>()
      for (const { record } of held.values()) if (record.document) digests.add(record.document.digest)
      if (shares.turn('')) await archive.sweep((domain) => held.has(domain), digests)
    } catch (error) {
      log.warn({ err: error }, 'provider records could not be swept') // the next sweep finds them again
    }
    if (!closing.signal.aborted) cancelSweep = clock.after(DAY_MS, () => void sweep())
  }

  /** Aborts what is under way; what was learned is saved. */
  async function close(): Promise<void> {
    closing.abort()
    for (const entry of held.values()) entry.answered()
    alarm.close()
    cancelSweep()
    await settled()
    await inspector.close()
    listeners.clear()
  }

  return {
    ...{ want, isSettled, settled, readOnce, states, state, grantedTo, onChange, refresh },
    ...{ endConfirmedHolds, close },
  }
}
