/**
 * The feed as callers read it: views of the current snapshot, versions that cover exactly what a caller would receive,
 * and page walks that stay on one snapshot (docs/decisions.md#snapshots-and-versions; specification, Wholesale
 * conditional-fetch rules). Reads are synchronous: a snapshot is replaced between two of them, never during one.
 */
import { type AdcpWarning, adcpError, type Refused } from '../adcp/answer.js'
import { BAD_CURSOR } from '../adcp/signal-requests.js'
import { inTurns } from '../process/portion-turns.js'
import type { InPortions } from '../process/portions.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { type Begun, createCursors } from './cursor.js'
import { filterWarnings, nearMisses } from './filter-warnings.js'
import { entryOfRef, type Resolved, resolveHandle } from './find-signal.js'
import type { Grants } from './grants.js'
import {
  type Answering,
  answeringAt,
  createLayers,
  EVERYBODY,
  type Layer,
  type Moment,
  OTHER_ACCOUNT,
  type Publication,
  type SnapshotRetention,
} from './layers.js'
import { createKeptAnswers, createKeptPages, createPages, isSmallPage, type PageUse } from './page.js'
import {
  type Criteria,
  criteriaOf,
  type Gap,
  isUnchanged,
  type LookupQuery,
  needsListings,
  type Page,
  type Rates,
  type Reader,
  type Selection,
  type Versions,
  versions,
  type WholesaleAnswer,
  type WholesaleQuery,
} from './query.js'
import { type Chunks, createResumed } from './resumed.js'
import { firstBeyond, stands } from './view.js'

type FeedOptions = {
  /** The same for all replicas and after restarts. */
  cursorSecret: string | Uint8Array
  retain: SnapshotRetention
  /** How prices in different currencies are compared; without rates they are not. */
  rates?: () => Rates | undefined
}

export type Feed = ReturnType<typeof createFeed>

/** The part of a snapshot that a reader sees. */
export type Seen = {
  snapshot: Snapshot
  /** In key order. */
  entries: Uint32Array
  criteria: Criteria
  versions: Versions
  /** The activation keys that the reader sees. */
  grants: Grants
  gaps: readonly Gap[]
  warnings: AdcpWarning[]
}

type SeeOptions = {
  /** The mode whose versions are given. */
  mode?: 'brief' | 'wholesale'
  /** The feed at that moment; by default now. */
  at?: Moment | undefined
}

type Question = Selection & Pick<WholesaleQuery, 'cursor'>

/** A question as it is answered. `walk`: undefined without a cursor, and for one that this query and caller were not given. */
type Asked = { criteria: Criteria; walk: Begun | undefined }

/** Who asks for what; `criteria` is the query in one spelling, whichever way it was written. */
type Asking = { query: Selection; criteria: Criteria; reader: Reader }

/** What is asked of the feed before there is one. */
export const NO_FEED_YET: Refused = {
  kind: 'refused',
  error: adcpError('SERVICE_UNAVAILABLE', 'The first snapshot of the feed is still being built.', {
    retry_after: 1,
    suggestion: 'Repeat the request after retry_after seconds.',
  }),
}

export function createFeed({ cursorSecret, retain, rates = () => undefined }: FeedOptions) {
  const warnings = (query: Selection, criteria: Criteria, reader: Reader) =>
    filterWarnings(query, criteria, reader, rates())
  const cursors = createCursors(cursorSecret)
  const walkListeners: ((snapshot: string) => void)[] = []
  const answers = createKeptAnswers()
  const pageBodies = createKeptPages()
  const layers = createLayers(retain)
  const resumed = createResumed()
  let latest: { query: Question; reader: Reader; rates: Rates | undefined; asked: Asked } | undefined

  /** Makes a generation the current one in one step: the public snapshot and those of all accounts. `now` in ms. */
  function publish(snapshot: Snapshot, now: number, publication: Publication = {}): void {
    answers.clear()
    pageBodies.clear()
    layers.publish(snapshot, now, publication)
  }

  /**
   * Shows what an earlier process published last, until the first generation of this one: in pages that need its columns and rows
   * alone. Its listings are not there, so whoever looks for them finds no snapshot. `chunks` says of each chunk of its rows
   * whether it was read whole. If one was not, the layer is shown no more; nor is it once the returned function is called.
   */
  function resume(snapshot: Snapshot, now: number, gaps: readonly Gap[], chunks: Chunks): () => void {
    publish(snapshot, now, { gaps })
    const layer = layers.current() as Layer
    return resumed.begin(layer, chunks, () => {
      answers.clear()
      pageBodies.clear()
      return layers.drop(layer)
    })
  }

  /** The state for a reader who may need more than pages do. */
  function moment(reader: Reader): Moment | undefined {
    const at = layers.moment(reader)
    return resumed.has(at?.open) ? undefined : at
  }

  /**
   * The snapshot of a walk, in the scope in which it began: the content does not change during the walk. A walk that needs
   * listings cannot go on in a resumed snapshot, which has none, also after that was replaced.
   */
  function pinned(
    { place: { snapshot: id }, scope }: Begun,
    criteria: Criteria,
    reader: Reader,
    now: number,
  ) {
    const { account } = reader
    const found = layers.find(id, now)
    const open = resumed.has(found) && needsListings(criteria, reader) ? undefined : found
    if (scope === 'public' || account === undefined) return open
    return layers.findOwn(account, id, now) ?? (open && { ...open, gaps: [...open.gaps, OTHER_ACCOUNT] })
  }

  /** Asked several times for one request (what is lacking, what is to be prepared, the answer), so the last one is kept. */
  function askedBy(query: Question, reader: Reader): Asked {
    if (latest?.query === query && latest.reader === reader && latest.rates === rates()) return latest.asked
    const { cursor } = query
    const criteria = criteriaOf(query, rates())
    const asked = {
      criteria,
      walk: cursor === undefined ? undefined : cursors.begun(cursor, criteria, reader),
    }
    latest = { query, reader, rates: rates(), asked }
    return asked
  }

  /** The snapshot of a walk that this process has to load first, and the layers it may be in; undefined when there is none. */
  function lacking(query: Question, reader: Reader, now: number) {
    const { criteria, walk } = askedBy(query, reader)
    if (!walk || pinned(walk, criteria, reader, now)) return undefined
    const isOpen = walk.scope === 'public' || reader.account === undefined
    return { layers: isOpen ? [EVERYBODY] : [reader.account as string, EVERYBODY], id: walk.place.snapshot }
  }

  function pagesFor({ snapshot, grants }: Answering['shown'], { query, criteria, reader }: Asking) {
    const { fields } = query
    const seesPrices = reader.visibility === 'full'
    return createPages(snapshot, { criteria, seesPrices, grants, ...(fields && { fields }) })
  }

  /** Entries as the body of a page, with its warnings. `sequence`: they follow each other, so the page can be kept for this use. */
  function body({ shown: tuple }: Answering, entries: Uint32Array, asking: Asking, sequence?: PageUse) {
    const { query, criteria, reader } = asking
    const { snapshot, grants } = tuple
    const { fields } = query
    const make = (take?: (bytes: number) => Buffer) => {
      const pages = pagesFor(tuple, asking)
      return { rows: pages.rows(entries, take), warnings: pages.partialCoverage(entries) }
    }
    // Consecutive entries of one view: the first, the last and the view identify them all.
    const place = [snapshot.id, entries.length, entries[0], entries.at(-1)]
    const shown = [reader.visibility, reader.wholeOnly, criteria.tuple, grants.name, fields]
    const made = sequence ? pageBodies.page(JSON.stringify([...place, ...shown]), sequence, make) : make()
    return {
      kind: 'page' as const,
      rows: made.rows,
      count: entries.length,
      gaps: tuple.gaps,
      warnings: [...warnings(query, criteria, reader), ...nearMisses(snapshot, query), ...made.warnings],
    }
  }

  /** The position after `last` in the walk that the reader is in or begins. */
  function cursorAfter(
    { shown: { snapshot }, scope }: Answering,
    last: number,
    { criteria, reader }: Asking,
  ) {
    for (const listener of walkListeners) listener(snapshot.id)
    layers.walk(snapshot)
    return cursors.after(snapshot, last, criteria, reader, scope)
  }

  /** Which signals a page shows, of which snapshot. */
  function placeOf(query: WholesaleQuery, asking: Asking, newest: Answering, now: number) {
    const { criteria, reader } = asking
    const { walk } = askedBy(query, reader)
    // A walk stays on its snapshot while that is retained; then it continues in the current one, whose version tells
    // the client.
    const kept = walk && pinned(walk, criteria, reader, now)
    const from = kept
      ? { shown: { ...kept.see(criteria, reader), gaps: kept.gaps }, scope: walk.scope }
      : newest
    const { snapshot, view } = from.shown
    const first = walk ? firstBeyond(snapshot, view.entries, walk.place.after) : 0
    const asked = view.entries.subarray(first, first + query.maxResults)
    const count = isSmallPage(snapshot, asked) ? asked.length : pagesFor(from.shown, asking).pageful(asked)
    const entries = asked.subarray(0, count)
    return { kept, from, entries, isLast: first + entries.length >= view.entries.length }
  }

  /** Lists the feed. `now` in ms. `use`: a page that is sent is in lent memory (process/memory.ts) if nobody asked for it before. */
  function wholesale(
    query: WholesaleQuery,
    reader: Reader,
    now: number,
    { at = layers.moment(reader), use = 'given' }: { at?: Moment | undefined; use?: PageUse } = {},
  ): WholesaleAnswer {
    if (!at || resumed.isDropped(at.open)) return NO_FEED_YET
    const { criteria, walk } = askedBy(query, reader)
    const asking = { query, criteria, reader }
    const newest = answeringAt(at, criteria, reader)
    if (query.cursor !== undefined && !walk) return { kind: 'refused', error: BAD_CURSOR }

    const newestVersions = versions('wholesale', newest, criteria, reader)
    if (isUnchanged(query, newestVersions))
      return { kind: 'unchanged', gaps: newest.shown.gaps, ...newestVersions }

    const { kept, from, entries, isLast } = placeOf(query, asking, newest, now)
    const last = entries.at(-1)
    // Spreads are last: properties after them would give each answer its own hidden class.
    return {
      total: from.shown.view.entries.length,
      ...(last !== undefined && !isLast && { cursor: cursorAfter(from, last, asking) }),
      ...(kept ? versions('wholesale', from, criteria, reader) : newestVersions),
      ...body(from, entries, asking, use),
    }
  }

  /** What an answer of `wholesale` has to wait for: rows of a resumed snapshot that are still read. Undefined: nothing. */
  function reading(query: WholesaleQuery, reader: Reader, now: number, at = layers.moment(reader)) {
    if (!at || !resumed.has(at.open) || resumed.isDropped(at.open)) return undefined
    const { criteria, walk } = askedBy(query, reader)
    if (query.cursor !== undefined && !walk) return undefined
    const newest = answeringAt(at, criteria, reader)
    if (isUnchanged(query, versions('wholesale', newest, criteria, reader))) return undefined
    const { entries } = placeOf(query, { query, criteria, reader }, newest, now)
    return resumed.reading(at.open, entries)
  }

  /** Until when an answer given now is valid, unless another snapshot is published. */
  function holding(query: WholesaleQuery, reader: Reader, now: number): (at: number) => boolean {
    const { account } = reader
    const isOwn = () => account !== undefined && layers.isCurrent(account)
    const wasOwn = isOwn()
    const { criteria, walk } = askedBy(query, reader)
    if (!walk) return () => isOwn() === wasOwn
    const held = pinned(walk, criteria, reader, now)
    return (at) => isOwn() === wasOwn && pinned(walk, criteria, reader, at) === held
  }

  /** The same for repeated requests: the same objects get the same answer, as long as it is valid. */
  function wholesaleAgain(query: WholesaleQuery, reader: Reader, now: number, at?: Moment): WholesaleAnswer {
    const answer = wholesale(query, reader, now, { at, use: 'kept' })
    const isPast = at && at.open !== layers.current()
    if (answer.kind !== 'refused' && !isPast) answers.keep(query, reader, answer, holding(query, reader, now))
    return answer
  }

  /** The named signals, in the order of the request. One that is missing or filtered out is left out without an error. */
  function lookup(query: LookupQuery, reader: Reader, at = moment(reader)): Page | Refused {
    const criteria = criteriaOf(query, rates())
    if (!at) return NO_FEED_YET
    const from = answeringAt(at, criteria, reader)
    const { snapshot, view } = from.shown
    const named = new Set(query.refs.map((ref) => entryOfRef(snapshot, ref)))
    const entries = Uint32Array.from([...named].filter((entry) => entry >= 0 && stands(view.entries, entry)))
    return {
      ...body(from, entries, { query, criteria, reader }),
      ...versions('lookup', from, criteria, reader),
      total: entries.length,
    }
  }

  /** What a reader sees of a selection, for callers that do not answer in pages; the versions are those of `mode`. */
  function see(
    query: Selection,
    reader: Reader,
    { mode = 'brief', at = moment(reader) }: SeeOptions = {},
  ): Seen | undefined {
    const criteria = criteriaOf(query, rates())
    if (!at) return undefined
    const from = answeringAt(at, criteria, reader)
    return {
      snapshot: from.shown.snapshot,
      entries: from.shown.view.entries,
      criteria,
      versions: versions(mode, from, criteria, reader),
      grants: from.shown.grants,
      gaps: from.shown.gaps,
      warnings: [...warnings(query, criteria, reader), ...nearMisses(from.shown.snapshot, query)],
    }
  }

  /**
   * The work before an answer to a reader who narrows the feed, in portions: every signal is looked at, and rows may
   * have to be merged again for the countries that the reader names. After it, an answer at that moment takes no longer
   * than any other, whatever has been published meanwhile. Undefined when there is nothing to do.
   */
  function preparing(
    query: Question,
    reader: Reader,
    now: number,
  ): { at: Moment; work: InPortions<void> } | undefined {
    const { filters, destinations, countries } = query
    if (!filters && !destinations && !countries && !reader.wholeOnly && reader.grants.length === 0) {
      return undefined
    }
    const at = layers.moment(reader)
    if (!at) return undefined
    const { criteria, walk } = askedBy(query, reader)
    const needed = new Set([at.open, at.own])
    if (walk) needed.add(pinned(walk, criteria, reader, now))
    const due = [...needed].filter((one) => one !== undefined && !one.knows(criteria, reader))
    if (due.length === 0) return undefined
    function* work(used: Moment): InPortions<void> {
      const release = layers.use(used)
      try {
        for (const one of due) if (one) yield* one.seeing(criteria, reader)
      } finally {
        release()
      }
    }
    return { at, work: work(at) }
  }

  /** The moment to answer the reader from, after the work that makes its answer as fast as any other. */
  async function prepared(query: Selection, reader: Reader, signal?: AbortSignal) {
    const at = moment(reader)
    const due = at && preparing(query, reader, 0) // the time matters only for cursors, and there is none
    if (!due) return at
    await inTurns(due.work, signal)
    return due.at
  }

  /** The upstream and names behind a handle of ours, for activation; an account's own layer comes first. */
  function resolve(handle: string, account?: string): Resolved | undefined {
    if (resumed.has(layers.current())) return undefined
    for (const held of [account === undefined ? undefined : layers.current(account), layers.current()]) {
      const resolved = held && resolveHandle(held.snapshot, handle)
      if (resolved) return resolved
    }
    return undefined
  }

  return {
    publish,
    resume,
    /** Whether pages are answered: of a published snapshot, or of a resumed one. */
    isServing: () => layers.current() !== undefined,
    lacking,
    /** Called whenever a cursor into a snapshot is given, with the snapshot's id. */
    onWalk: (listener: (snapshot: string) => void): void => void walkListeners.push(listener),
    /** Adds a snapshot of another process where walks in its layer find it; the public layer has no name. */
    restore: layers.restore,
    wholesale,
    wholesaleAgain,
    reading,
    /** The earlier answer of `wholesaleAgain` to the same objects, if it is still valid. */
    known: answers.find,
    lookup,
    see,
    preparing,
    prepared,
    moment,
    resolve,
    /** The current snapshot of an account that has one, else the public one; undefined until the first is published. */
    current: (account?: string) =>
      resumed.has(layers.current()) ? undefined : (layers.current(account) ?? layers.current())?.snapshot,
    /** Replaced snapshots that walks still use, and the memory that only they hold. */
    retained: layers.retained,
  }
}
