/**
 * Our own search over everything an answer may show: the mirrored feed by its index, and findings outside the feed by a
 * small index made for this question. Both use the same words, so where a signal was found does not change its rank.
 */
import { hash } from 'node:crypto'
import { createRecent } from '../process/memory.js'
import { inTurns } from '../process/portion-turns.js'
import { SAME_SUBJECT, type SearchHits } from '../search/search.js'
import { createSearcher, type Searchable, type Searcher } from '../search/search-host.js'
import { indexInPortions, type Synonyms } from '../search/search-index.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { type Corpus, createTranslations, flagsOf, hitOf, keyOf } from './corpus.js'

type LocalHits = {
  /** Best first. */
  hits: number[]
  /** How well each matches, compared with the best: 0 to 1. */
  fits: number[]
  /** What was looked for, by the words of the question; and of each hit, one bit for each that it has. */
  labels: readonly string[]
  matches: number[]
  /** Per hit: whether its subject matches, and the place and window if the question names any. */
  fulfils: boolean[]
  /** Whether part of the question was left out because it is too long. */
  isCut: boolean
  /** Whether the feed has no index yet: signals that are not among the hits may match as well. */
  isBlind: boolean
}

type Question = {
  text: string
  countries: readonly string[]
  /** How well a hit fulfils wishes about other things than its words, 0 to 1. */
  weigh(hit: number): number
}

type LocalOptions = {
  search: { current(): Searchable | undefined }
  synonyms: Synonyms
}

const NONE: readonly string[] = []
const MOST_INDEXES = 16 // of findings: one for each question that is being answered

type Found = { found: SearchHits; hitAt: (row: number) => number }

type Scored = { hit: number; score: number; match: number; fulfils: boolean }

/** Translates the bits of one search's labels to bits of all labels, to which new ones are added. */
function relabelled(labels: string[], own: readonly string[], bits: number): number {
  return own.reduce((sum, label, at) => {
    if (!labels.includes(label)) labels.push(label)
    return (bits >>> at) & 1 ? sum | (1 << labels.indexOf(label)) : sum
  }, 0)
}

/** Searches the feed and the findings of a question. */
export function createLocal({ search, synonyms }: LocalOptions) {
  const translate = createTranslations()
  const indexes = createRecent<Searcher>(MOST_INDEXES)

  async function inFeed(
    { text, countries, weigh }: Question,
    corpus: Corpus,
    limit: number,
    passes: (hit: number) => boolean,
  ): Promise<Found | undefined> {
    const searchable = search.current()
    if (!searchable) return undefined
    const entries = await translate(searchable.snapshot, corpus.feed)
    const hitAt = entries ? (row: number) => entries[row] as number : (row: number) => row
    const accept = (row: number) => hitAt(row) >= 0 && passes(hitAt(row))
    const found = await searchable.searcher.search(text, {
      ...{ limit, countries, accept },
      weigh: (row) => weigh(hitAt(row)),
    })
    return { found, hitAt }
  }

  /** The index of findings; kept, because an answer is ranked twice (briefs/brief.ts, `prepared`). */
  async function indexed(extra: Snapshot, shown: Uint32Array): Promise<Searcher> {
    const name = `${extra.id} ${hash('sha256', shown, 'base64')}`
    const known = indexes.get(name)
    if (known) return known
    const flags = flagsOf(extra, shown)
    const { index } = await inTurns(indexInPortions(extra, synonyms, (entry) => flags[entry] === 1))
    const made = createSearcher(index, synonyms)
    indexes.set(name, made)
    return made
  }

  async function outsideFeed(
    { text, countries, weigh }: Question,
    extra: Snapshot,
    from: number,
    limit: number,
    passes: (hit: number) => boolean,
  ): Promise<Found> {
    const hitAt = (row: number) => from + row
    const accept = (row: number) => passes(hitAt(row))
    const { search } = await indexed(
      extra,
      extra.shown.filter((entry) => passes(hitAt(entry))),
    )
    const found = await search(text, { limit, countries, accept, weigh: (row) => weigh(hitAt(row)) })
    return { found, hitAt }
  }

  /**
   * At most `limit` hits that pass. A signal that is both in the feed and among the findings is taken from the findings,
   * with all its offers.
   */
  async function find(
    question: Question,
    corpus: Corpus,
    limit: number,
    passes: (hit: number) => boolean,
  ): Promise<LocalHits> {
    const { feed, extra } = corpus
    const labels: string[] = []
    const both = await Promise.all([
      inFeed(question, corpus, limit, passes),
      extra && outsideFeed(question, extra, feed.count, limit, passes),
    ])
    const searched = both.flatMap((one) => one ?? [])
    const subject = Math.max(...searched.map(({ found }) => found.subject))
    const best = new Map<number, Scored>()
    for (const { found, hitAt } of searched) {
      for (const [at, row] of found.rows.entries()) {
        const hit = hitAt(row)
        const place = hit < feed.count && extra ? hitOf(corpus, keyOf(corpus, hit)) : hit
        const score = (found.scores[at] as number) / found.full
        const known = best.get(place)
        if (known && known.score >= score) continue
        best.set(place, {
          hit: place,
          score,
          match: relabelled(labels, found.labels, found.matches[at] as number),
          fulfils: found.fulfils[at] === 1 && found.subject >= subject * SAME_SUBJECT,
        })
      }
    }
    const ordered = [...best.values()]
      .sort((one, other) => other.score - one.score || one.hit - other.hit)
      .slice(0, limit)
    const highest = ordered[0]?.score ?? 0
    return {
      hits: ordered.map(({ hit }) => hit),
      fits: ordered.map(({ score }) => (highest > 0 ? score / highest : 1)),
      labels: [...new Set([...labels, ...searched.flatMap(({ found }) => found.labels)])],
      matches: ordered.map(({ match }) => match),
      fulfils: ordered.map(({ fulfils }) => fulfils),
      isCut: searched.some(({ found }) => found.isCut),
      isBlind: search.current() === undefined,
    }
  }

  /** Ids of the platforms that a question may name. */
  const platforms = () => search.current()?.platforms ?? NONE

  return { find, platforms }
}

export type Local = ReturnType<typeof createLocal>
