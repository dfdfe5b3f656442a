/**
 * Pages of an answer with its own order, for brief discovery and exact lookup alike (specification, "Limits"). The
 * first page stores the order for the others. Each page, the first one too, shows its rows as they stand for the reader at that
 * moment (`standing.ts`).
 */
import { type AdcpWarning, adcpError, type Refused } from '../adcp/answer.js'
import { BAD_CURSOR, type GetSignalsRequest, pageSizeOf, selectionOf } from '../adcp/signal-requests.js'
import type { Feed } from '../feed/feed.js'
import type { Moment } from '../feed/layers.js'
import { PAGE_BYTES } from '../feed/page.js'
import type { Gap, Reader } from '../feed/query.js'
import { WORDS } from '../merge/keys.js'
import { StorageUnavailable } from '../store/database/storage-work.js'
import type { FoundRow } from '../store/records/found.js'
import type { UpstreamStatus } from '../upstreams/mirror/scope-status.js'
import { type Missing, questionKey, staleWarnings } from './brief.js'
import { type Corpus, createGate, createRowPieces, handleOf, hitOf, keyOf, sizeOf } from './corpus.js'
import {
  type Kept,
  type KeptAnswer,
  keepRelevance,
  type ShownRelevance,
  saidOf,
  shownRelevance,
} from './kept.js'
import type { Relevance } from './rank.js'
import type { WhatStands } from './standing.js'

type AnswerPagesOptions = {
  feed: Pick<Feed, 'see'>
  kept: Kept
  standing: Pick<WhatStands, 'corpusOf'>
  /** What upstreams said of these signals, by their handles. */
  rowsOf(handles: readonly string[], reader: Reader): Promise<readonly FoundRow[]>
  upstreams: { statuses(): readonly UpstreamStatus[] }
  /** In whose scopes upstreams are asked for a reader: an account's name may come to stand for another one. */
  asWhom(reader: Reader): readonly string[]
}

/** An answer as it was put in order. */
type Ordered = {
  corpus: Corpus
  hits: readonly number[]
  /** What upstreams said and the feed lacks. */
  said: readonly FoundRow[]
  /** What the answer lacks, besides what the feed does. */
  missing?: readonly Missing[]
  relevance?: Relevance
}

export type AnswerPage = {
  kind: 'page'
  /** Signals on the page, and in the whole answer. */
  count: number
  total: number
  /** The first signal of the page. */
  first?: Record<string, unknown>
  fields: Readonly<Record<string, unknown>>
  rows: { field: 'signals'; parts: readonly Uint8Array[] }
  /** What the snapshot behind the answer lacks. */
  gaps: readonly Gap[]
  /** What the whole answer lacks besides. */
  missing: readonly Missing[]
  warnings: readonly AdcpWarning[]
  /** One per signal of the page, in its order; none when the request had no words. */
  relevance: readonly ShownRelevance[]
}

/** The feed has no snapshot yet. */
export const NOT_READY: Refused = {
  kind: 'refused',
  error: adcpError('SERVICE_UNAVAILABLE', 'The feed is being read for the first time.', {
    retry_after: 2,
    suggestion: 'Repeat the request after retry_after seconds.',
  }),
}

/** Another process began the answer, and the storage cannot be reached now, or could not then. */
const AWAY: Refused = {
  kind: 'refused',
  error: adcpError('SERVICE_UNAVAILABLE', 'The answer cannot be read now.', {
    retry_after: 5,
    suggestion: 'Repeat the request after retry_after seconds, or ask again from the first page.',
  }),
}

function keysOf(corpus: Corpus, hits: readonly number[]): Uint32Array {
  const keys = new Uint32Array(hits.length * WORDS)
  hits.forEach((hit, at) => {
    keys.set(keyOf(corpus, hit), at * WORDS)
  })
  return keys
}

/** Pages of answers; each gives the page, or why there is none. */
export function createAnswerPages({ feed, kept, standing, rowsOf, upstreams, asWhom }: AnswerPagesOptions) {
  /** Binds cursors to this caller and this question. */
  function bindingOf(input: GetSignalsRequest, reader: Reader): string {
    return JSON.stringify([reader.caller, reader.visibility, questionKey(input, reader), asWhom(reader)])
  }

  /** Rows of an answer from `from` up to at most `end`. `keep` returns the name that cursors hold. */
  async function page(
    { keys, missing, relevance }: KeptAnswer,
    said: readonly FoundRow[],
    { from, end }: { from: number; end: number },
    keep: () => ReturnType<Kept['keep']>,
    input: GetSignalsRequest,
    reader: Reader,
    at: Moment | undefined,
  ): Promise<AnswerPage | Refused> {
    const selection = selectionOf(input)
    const seen = feed.see(selection, reader, { at })
    if (!seen) return NOT_READY
    const corpus = await standing.corpusOf(seen.snapshot, said, reader)
    const rowSelection = {
      criteria: seen.criteria,
      reader,
      ...(selection.fields && { fields: selection.fields }),
    }
    const passes = await createGate(corpus, seen.entries, rowSelection)
    const size = pageSizeOf(input)
    const total = keys.length / WORDS
    const hits: number[] = []
    const places: number[] = [] // of the hits, in the order of the answer
    let next = from
    let bytes = 0
    for (; next < end && hits.length < size; next += 1) {
      const hit = hitOf(corpus, keys.subarray(next * WORDS, (next + 1) * WORDS))
      if (hit < 0 || !passes(hit)) continue
      bytes += sizeOf(corpus, hit)
      if (bytes > PAGE_BYTES && hits.length > 0) break
      hits.push(hit)
      places.push(next)
    }
    const pieces = createRowPieces(corpus, rowSelection)
    const more = next < total
    const [first] = hits
    const cursor = more ? kept.cursor(await keep(), next, bindingOf(input, reader)) : undefined
    const { cacheScope, feedVersion, pricingVersion } = seen.versions
    return {
      kind: 'page',
      count: hits.length,
      total,
      ...(first !== undefined && { first: pieces.row(first) }),
      fields: {
        cache_scope: cacheScope,
        wholesale_feed_version: feedVersion,
        pricing_version: pricingVersion,
        pagination: {
          has_more: more,
          cursor,
          total_count: total,
        },
      },
      rows: { field: 'signals', parts: pieces.rows(hits) },
      relevance: relevance
        ? hits.map((hit, on) => shownRelevance(relevance, places[on] as number, handleOf(corpus, hit)))
        : [],
      ...{ gaps: seen.gaps, missing },
      warnings: [...seen.warnings, ...pieces.warnings(hits), ...staleWarnings(upstreams.statuses())],
    }
  }

  /**
   * The first page of an answer, which is kept when there are others. Signals that share nothing with the question come
   * on later pages, even when the first page is short or empty.
   */
  async function first(
    { corpus, hits, said, missing = [], relevance }: Ordered,
    input: GetSignalsRequest,
    reader: Reader,
    at: Moment | undefined,
  ): Promise<AnswerPage | Refused> {
    const answer: KeptAnswer = {
      keys: keysOf(corpus, hits),
      beside: hits.flatMap((hit) => (hit < corpus.feed.count ? [] : [handleOf(corpus, hit)])),
      ...{ said: saidOf(said, corpus.extra), missing },
      ...(relevance && relevance.labels.length > 0 && { relevance: keepRelevance(relevance, hits) }),
    }
    const end = answer.relevance?.first ?? hits.length
    const keep = () => kept.keep(reader.caller, answer)
    return await page(answer, said, { from: 0, end }, keep, input, reader, at)
  }

  /** The page of a cursor. Refuses a cursor that is not the caller's, of another question, or too old. */
  async function further(
    cursor: string,
    input: GetSignalsRequest,
    reader: Reader,
    at: Moment | undefined,
  ): Promise<AnswerPage | Refused> {
    let known: Awaited<ReturnType<Kept['find']>>
    try {
      known = await kept.find(cursor, bindingOf(input, reader), reader.caller)
    } catch (error) {
      if (!(error instanceof StorageUnavailable)) throw error
      return AWAY
    }
    if (!known) return { kind: 'refused', error: BAD_CURSOR }
    if (known.kind === 'untold') return AWAY
    const { from, answer } = known
    const { beside } = answer
    const said = answer.said?.rows ?? (beside.length > 0 ? await rowsOf(beside, reader) : [])
    const total = answer.keys.length / WORDS
    const sharing = answer.relevance?.first ?? total
    const end = from < sharing ? sharing : total
    return await page(answer, said, { from, end }, async () => known, input, reader, at)
  }

  return { first, further }
}

export type AnswerPages = ReturnType<typeof createAnswerPages>
