/**
 * Exact lookup: the named signals in the order of the request, from the feed and from earlier answers; a missing or filtered
 * signal is left out without an error (specification, "Operation by combination of `signal_spec` and `signal_refs`"). Rows of
 * earlier answers that no mirrored slice has are kept so that their handles can be looked up and activated
 * (docs/decisions.md#handles): in memory at once and in the storage soon after; from both, rows that are used no more leave when
 * there are too many. They are merged and authorized anew at each use, so they show nothing that the feed would withhold now.
 */
import { LRUCache } from 'lru-cache'
import type { AdcpWarning, Refused } from '../adcp/answer.js'
import type { SignalRef } from '../adcp/signal.js'
import { cursorOf, type GetSignalsRequest, refsOf, selectionOf } from '../adcp/signal-requests.js'
import { canonicalUrl } from '../adcp/url.js'
import type { Judge } from '../authz/rules/verdict.js'
import type { Feed } from '../feed/feed.js'
import { entryOfRef } from '../feed/find-signal.js'
import type { Reader } from '../feed/query.js'
import { handleKey, identityKey, signalHandle } from '../merge/identity.js'
import type { Clock } from '../net/clock.js'
import { StorageUnavailable } from '../store/database/storage-work.js'
import type { FoundRow, FoundRows } from '../store/records/found.js'
import { foundSlice } from '../upstreams/fanout.js'
import { readRows } from '../upstreams/rows/read-rows.js'
import type { Slice } from '../upstreams/rows/slice.js'
import { type AnswerPage, type AnswerPages, NOT_READY } from './answer-pages.js'
import { anchorsOf, createGate, gatherFindings } from './corpus.js'

const RECENT_BYTES = 64 * 1024 ** 2 // in memory: recent rows, which also need not be stored again
const BYTES_A_CHARACTER = 2
const OWN_BYTES = 500 // of a row, besides its listing
const WRITE_AGAIN_MS = 1_000
const MOST_NAMED = 10 // references in one sentence

type LearnedOptions = {
  found: FoundRows
  /** Whether other processes use the same storage. */
  isShared: boolean
  clock: Pick<Clock, 'after'>
  /** The scope that answers a reader, by the ids of the upstreams that are asked now. */
  scopesOf(reader: Reader): ReadonlyMap<string, string>
  onTrouble(message: string): void
}

const nameOf = ({ handle, upstream, scope, segment }: FoundRow) =>
  JSON.stringify([handle, upstream, scope, segment])

function slicesOf(rows: readonly FoundRow[]): Slice[] {
  const byUpstream = new Map<string, FoundRow[]>()
  for (const row of rows) {
    const others = byUpstream.get(row.agentUrl)
    if (others) others.push(row)
    else byUpstream.set(row.agentUrl, [row])
  }
  return [...byUpstream.values()].map((own) => {
    const [{ upstream: id, agentUrl, scope }] = own as [FoundRow, ...FoundRow[]]
    const listings = own.map(({ listing }) => Buffer.from(listing))
    return foundSlice({ id, agentUrl, scope }, readRows(listings), 0)
  })
}

/** Such rows, of this process and of others on its storage. */
export function createLearned({ found, isShared, clock, scopesOf, onTrouble }: LearnedOptions) {
  const names = new Map<string, Set<string>>() // of recent rows, by the handle of their signal
  const unwritten = new Set<string>() // names of recent rows
  const recent = new LRUCache<string, FoundRow>({
    maxSize: RECENT_BYTES,
    sizeCalculation: ({ listing }) => OWN_BYTES + BYTES_A_CHARACTER * listing.length,
    noDisposeOnSet: true,
    dispose({ handle }, name) {
      unwritten.delete(name)
      const own = names.get(handle)
      own?.delete(name)
      if (own?.size === 0) names.delete(handle)
    },
  })
  let writing: Promise<void> | undefined
  let isTold = false // a failure that lasts is told once
  let closed = false
  let cancelAgain = () => {}

  async function write(): Promise<void> {
    while (unwritten.size > 0) {
      const rows = [...unwritten].flatMap((name) => recent.peek(name) ?? [])
      unwritten.clear()
      try {
        await found.put(rows)
        isTold = false
      } catch (error) {
        if (!isTold) onTrouble(`found signals are kept in memory only: ${(error as Error).message}`)
        isTold = true
        for (const name of rows.map(nameOf)) if (recent.has(name)) unwritten.add(name)
        cancelAgain()
        if (!closed) cancelAgain = clock.after(WRITE_AGAIN_MS, () => void writeOnce())
        return
      }
    }
  }

  function writeOnce(): Promise<void> {
    writing ??= write().finally(() => {
      writing = undefined
    })
    return writing
  }

  /**
   * Remembers rows, at once. Resolves when they are in the storage or could not be written; undefined when there is
   * nothing to wait for, because no other process uses the storage or all are written.
   */
  function learn(rows: readonly FoundRow[]): Promise<void> | undefined {
    for (const row of rows) {
      const name = nameOf(row)
      if (recent.get(name)?.listing === row.listing) continue
      const { handle } = row
      names.set(handle, (names.get(handle) ?? new Set()).add(name))
      unwritten.add(name)
      recent.set(name, row)
    }
    if (unwritten.size === 0 && !writing) return undefined
    const written = writeOnce()
    return isShared ? written : undefined
  }

  async function stored(handles: readonly string[]): Promise<FoundRow[]> {
    try {
      return await found.read(handles)
    } catch (error) {
      if (!(error instanceof StorageUnavailable)) throw error
      return [] // without the storage, only the rows in memory are known
    }
  }

  /** The rows of these signals as the reader's upstreams gave them, without rows that were given to another account. */
  async function rowsOf(handles: readonly string[], reader: Reader): Promise<Slice[]> {
    const ours = handles.filter((handle) => handleKey(handle) !== undefined)
    const rows = new Map<string, FoundRow>()
    for (const row of await stored(ours)) rows.set(nameOf(row), row)
    for (const name of ours.flatMap((handle) => [...(names.get(handle) ?? [])])) {
      const row = recent.get(name)
      if (row) rows.set(name, row)
    }
    if (rows.size === 0) return []
    const scopes = scopesOf(reader)
    return slicesOf([...rows.values()].filter(({ upstream, scope }) => scopes.get(upstream) === scope))
  }

  return {
    learn,
    rowsOf,
    /** Resolves when everything learned is stored, or could not be. */
    async close(): Promise<void> {
      closed = true
      cancelAgain()
      await writing
    },
  }
}

type Learned = ReturnType<typeof createLearned>

type LookupOptions = {
  feed: Pick<Feed, 'moment' | 'see'>
  pages: AnswerPages
  learned: Pick<Learned, 'rowsOf'>
  /** What providers say at this moment. */
  judge(): Judge
}

/** The handles that a reference may stand for (docs/decisions.md#identity, as feed/find-signal.ts reads references). */
function handlesOf(ref: SignalRef): string[] {
  if (ref.scope === 'product') return []
  if (ref.scope === 'data_provider') {
    const { data_provider_domain: domain, signal_id: id } = ref
    return [signalHandle(identityKey({ kind: 'provider', domain, id }))]
  }
  const agentUrl = canonicalUrl(ref.signal_source_url)
  if (agentUrl === undefined) return []
  // A row without any id of its own is referred to by our handle.
  return [signalHandle(identityKey({ kind: 'source', agentUrl, id: ref.signal_id })), ref.signal_id]
}

/** Names the references that found nothing, by index. Missing and filtered signals look the same. */
function missingWarnings(
  refs: readonly SignalRef[],
  isMissing: (ref: SignalRef) => boolean,
  { signal_refs: current = [] }: GetSignalsRequest,
): AdcpWarning[] {
  const fieldAt = (at: number) =>
    at < current.length ? `signal_refs[${at}]` : `signal_ids[${at - current.length}]`
  const places = refs.flatMap((ref, at) => (isMissing(ref) ? [fieldAt(at)] : []))
  const [first] = places
  if (first === undefined) return []
  const more = places.length - MOST_NAMED
  const named = `${places.slice(0, MOST_NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
  return [
    {
      code: 'REFERENCE_NOT_FOUND',
      severity: 'warning',
      message: `Nothing was found for ${named}: not in the feed, or left out by the request.`,
      field: first,
      suggestion:
        'Take references from a current answer of get_signals; filters, destinations and countries hold for them too.',
    },
  ]
}

/** Looks named signals up; what is not found is a warning, never an error. */
export function createLookup({ feed, pages, learned, judge }: LookupOptions) {
  return async function lookup(
    input: GetSignalsRequest,
    reader: Reader,
    at = feed.moment(reader),
  ): Promise<AnswerPage | Refused> {
    const cursor = cursorOf(input)
    if (cursor !== undefined) return pages.further(cursor, input, reader, at)
    const refs = refsOf(input)
    const seen = feed.see(selectionOf(input), reader, { at })
    if (!seen) return NOT_READY
    const elsewhere = refs.filter((ref) => entryOfRef(seen.snapshot, ref) < 0)
    const handles = elsewhere.flatMap(handlesOf)
    const slices = handles.length > 0 ? await learned.rowsOf(handles, reader) : []

    const { corpus } = await gatherFindings(seen.snapshot, slices, judge())
    const passes = await createGate(corpus, seen.entries, { criteria: seen.criteria, reader })
    const page = await pages.first(corpus, anchorsOf(corpus, refs).filter(passes), input, reader, { at })
    if (page.kind === 'refused') return page
    const isMissing = (ref: SignalRef) => !anchorsOf(corpus, [ref]).some(passes)
    return { ...page, warnings: [...page.warnings, ...missingWarnings(refs, isMissing, input)] }
  }
}

export type Lookup = ReturnType<typeof createLookup>
