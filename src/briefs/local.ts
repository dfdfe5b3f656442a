/**
 * Our own search over everything an answer may show: the mirrored feed by its index, and what upstreams found beside it
 * by a small one made on the spot. Both are judged by the same words, so a signal does not rank by where it was found.
 */

import { createSearcher, type SearchHits } from '../search/search.js'
import type { Searchable } from '../search/search-host.js'
import { createSearchIndexBuilder, type SearchableRow } from '../search/search-index.js'
import type { Synonyms } from '../search/synonyms.js'
import { rowAt, type Snapshot } from '../snapshot/snapshot.js'
import { createTranslations, type Ground, hitOf, keyOf } from './hits.js'

export type LocalHits = {
  /** Best first. */
  hits: number[]
  /** How well each fits, against the best: 0 to 1. */
  fits: number[]
}

export type LocalOptions = {
  search: { current(): Searchable | undefined }
  synonyms: Synonyms
}

type Scored = { hit: number; score: number }

function scored({ rows, scores, full }: SearchHits, hitAt: (row: number) => number): Scored[] {
  return Array.from(rows, (row, at) => ({ hit: hitAt(row), score: (scores[at] as number) / full }))
}

export function createLocal({ search, synonyms }: LocalOptions) {
  const translate = createTranslations()

  function inFeed(text: string, ground: Ground, limit: number, passes: (hit: number) => boolean): Scored[] {
    const searchable = search.current()
    if (!searchable) return []
    const entries = translate(searchable.snapshot, ground.feed)
    const entryOf = entries ? (row: number) => entries[row] as number : (row: number) => row
    const accept = (row: number) => entryOf(row) >= 0 && passes(entryOf(row))
    return scored(searchable.searcher.search(text, { limit, accept }), entryOf)
  }

  function besideFeed(
    text: string,
    beside: Snapshot,
    limit: number,
    passes: (entry: number) => boolean,
  ): Scored[] {
    const shown = [...beside.shown].filter(passes)
    const builder = createSearchIndexBuilder(synonyms)
    for (const entry of shown) builder.add(rowAt(beside, entry) as SearchableRow)
    const { search: find } = createSearcher(builder.finish(), synonyms)
    return scored(find(text, { limit }), (row) => shown[row] as number)
  }

  /** At most `limit` hits that pass. A signal that was also found beside the feed stands there, with all its offers. */
  return (text: string, ground: Ground, limit: number, passes: (hit: number) => boolean): LocalHits => {
    const { feed, beside } = ground
    const found = inFeed(text, ground, limit, passes)
    const extra = beside
      ? besideFeed(text, beside, limit, (entry) => passes(feed.count + entry)).map(({ hit, score }) => ({
          hit: feed.count + hit,
          score,
        }))
      : []
    const best = new Map<number, number>()
    for (const { hit, score } of [...found, ...extra]) {
      const place = hit < feed.count && beside ? hitOf(ground, keyOf(ground, hit)) : hit
      best.set(place, Math.max(score, best.get(place) ?? 0))
    }
    const ordered = [...best].sort(([one, a], [other, b]) => b - a || one - other).slice(0, limit)
    const highest = ordered[0]?.[1] ?? 0
    return {
      hits: ordered.map(([hit]) => hit),
      fits: ordered.map(([, score]) => (highest > 0 ? score / highest : 1)),
    }
  }
}

export type Local = ReturnType<typeof createLocal>
