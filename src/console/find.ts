/**
 * The signals that a question of the feed page finds, as one caller sees the feed: what get_signals shows for the same
 * selection (`feed.see`), and of these those that the words, the sellers and the value types leave.
 */
import { LRUCache } from 'lru-cache'
import { VALUE_TYPES } from '../adcp/signal.js'
import { flagsOf } from '../briefs/ranking/answer-page.js'
import { createTranslations } from '../briefs/ranking/hits.js'
import type { Feed, Seen } from '../feed/feed.js'
import type { Reader } from '../feed/query.js'
import type { Searchable } from '../search/search-host.js'
import { createColumn, u32 } from '../snapshot/columns.js'
import { digestText } from '../snapshot/keys.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { createMeter, type InPortions, inTurns } from '../threads/portions.js'
import { createShared } from '../threads/shared.js'
import type { FeedQuestion } from './feed-question.js'

const MOST_HITS = 5_000 // the best rows of a search that are kept
const KEPT_BYTES = 64 * 1024 * 1024

export type Found = {
  seen: Seen
  /** In the order of the feed; for a search, the best first. */
  entries: Uint32Array
  isRanked: boolean
  /** How many were found; more than `entries` when a search found more than are kept. */
  total: number
}

type Kept = Omit<Found, 'seen'>

type FindOptions = {
  feed: Pick<Feed, 'see' | 'prepared'>
  searchable(): Searchable | undefined
}

/** The entries that one of the named upstreams sells, and that have one of the named value types. */
function* sifted(
  { facts, offers, slices }: Snapshot,
  entries: Uint32Array,
  { upstreams, valueTypes }: FeedQuestion,
): InPortions<Uint32Array> {
  const meter = createMeter()
  const types = new Set(valueTypes.map((type) => VALUE_TYPES.indexOf(type) + 1))
  const wanted = slices.map(({ slice }) => upstreams.includes(slice.upstream))
  const isSold = (entry: number) => {
    for (let one = offers.at[entry] as number; one < (offers.at[entry + 1] as number); one += 1) {
      if (offers.stands[one] && wanted[offers.slice[one] as number]) return true
    }
    return false
  }
  const found = createColumn(u32, 0)
  for (const entry of entries) {
    meter.did(1)
    if (meter.isDue()) yield
    if (types.size > 0 && !types.has(facts.valueType[entry] as number)) continue
    if (upstreams.length === 0 || isSold(entry)) found.push(entry)
  }
  return found.finish()
}

/** Finds signals for the console. What it found is kept, within 64 MB, for the next page and the facets. */
export function createFind({ feed, searchable }: FindOptions) {
  const translate = createTranslations()
  const kept = new LRUCache<string, Kept>({
    maxSize: KEPT_BYTES,
    sizeCalculation: ({ entries }) => 1_024 + entries.byteLength,
  })

  /** The page asks for its rows and its facets at the same time; both wait for one search. */
  const shared = createShared<string, Kept>()

  /** Those of the entries that match the words. */
  async function searched(
    text: string,
    snapshot: Snapshot,
    entries: Uint32Array,
    signal: AbortSignal,
  ): Promise<Kept> {
    const current = searchable()
    if (!current) return { entries: new Uint32Array(0), isRanked: true, total: 0 }
    const there = await translate(current.snapshot, snapshot)
    const entryOf = there ? (row: number) => there[row] as number : (row: number) => row
    const flags = entries === snapshot.shown && !there ? undefined : flagsOf(snapshot, entries)
    const { searcher } = current
    const options = {
      limit: MOST_HITS,
      ...(flags && { accept: (row: number) => entryOf(row) >= 0 && flags[entryOf(row)] === 1 }),
    }
    const { rows, total } = await searcher.searchInTurns(searcher.complete(text), options, signal)
    return { entries: rows.map(entryOf), isRanked: true, total }
  }

  async function looked(
    question: FeedQuestion,
    { snapshot, entries }: Seen,
    signal: AbortSignal,
  ): Promise<Kept> {
    const { text, upstreams, valueTypes } = question
    const left =
      upstreams.length + valueTypes.length > 0
        ? await inTurns(sifted(snapshot, entries, question), signal)
        : entries
    return text === ''
      ? { entries: left, isRanked: false, total: left.length }
      : searched(text, snapshot, left, signal)
  }

  /**
   * Undefined before the feed's first snapshot and, when words are looked for, before the first index. Rejects when the
   * signal is aborted.
   */
  return async (question: FeedQuestion, reader: Reader, signal: AbortSignal): Promise<Found | undefined> => {
    const { selection, text, upstreams, valueTypes } = question
    const seen = feed.see(selection, reader, {
      mode: 'wholesale',
      at: await feed.prepared(selection, reader, signal),
    })
    if (!seen) return undefined
    const { snapshot, criteria } = seen
    const index = text === '' ? '' : searchable()?.snapshot.id
    if (index === undefined) return undefined
    const what = [snapshot.id, criteria.tuple, reader.visibility, index, text, upstreams, valueTypes]
    const name = digestText(JSON.stringify(what)) // a question may be longer than what is found
    const known = kept.get(name)
    if (known) return { seen, ...known }
    const found = await shared(name, (stop) => looked(question, seen, stop), signal)
    kept.set(name, found)
    return { seen, ...found }
  }
}

export type Find = ReturnType<typeof createFind>
