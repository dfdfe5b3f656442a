/**
 * One order of everything that may answer a question: our own search over all of it, the upstreams' orders with a
 * smaller weight, and what the words say besides the subject (docs/discovery.md). Signals that share nothing with the
 * question come last.
 */
import { type GetSignalsRequest, refsOf, selectionOf } from '../adcp/signal-requests.js'
import type { Seen } from '../feed/feed.js'
import { anyDeployment } from '../feed/filters.js'
import { converted, type Rates, type Reader } from '../feed/query.js'
import { destinationKey } from '../merge/deployments.js'
import { inTurns } from '../process/portion-turns.js'
import { createMeter, type InPortions, rowUnits } from '../process/portions.js'
import { type ReadAs, type ReadPrice, readBrief } from '../search/read-brief.js'
import type { Synonyms } from '../search/search-index.js'
import { fulfils, type RefinableRow, readWishes, refinedQuestion } from '../search/wishes.js'
import { anchorsOf, type Corpus, createGate, createRowPieces, sizeOf } from './corpus.js'
import type { Local } from './local.js'

/** Weakens the first places, so that one searcher's favourite does not outweigh what several agree on. */
const DAMPING = 60

type RankedList = {
  /** Best first, each once. */
  ids: ArrayLike<number>
  weight: number
  /** How well each id matches, 0 to 1, when the list knows: a weak match counts less. Default: all alike. */
  fits?: ArrayLike<number>
}

/**
 * All ids of the lists, best first; ids with equal scores by number. Reciprocal rank fusion (Cormack, Clarke,
 * Buettcher, 2009): it uses places, because scores of different searchers cannot be compared. The result depends on the
 * lists alone, not on when each arrived.
 */
function fuse(lists: readonly RankedList[]): number[] {
  const places = new Map<number, number[]>()
  for (const { ids, weight, fits } of lists) {
    for (let at = 0; at < ids.length; at += 1) {
      const id = ids[at] as number
      const share = ((fits?.[at] ?? 1) * weight) / (DAMPING + at + 1)
      const shares = places.get(id)
      if (shares) shares.push(share)
      else places.set(id, [share])
    }
  }
  // Summed in order of size: floating point sums depend on their order, and lists arrive in any order.
  const scored = Array.from(places, ([id, shares]) => ({
    id,
    score: shares.sort((one, other) => one - other).reduce((sum, share) => sum + share, 0),
  }))
  return scored.sort((one, other) => other.score - one.score || one.id - other.id).map(({ id }) => id)
}

/** The longest answer; whoever wants more reads the wholesale feed. */
const MOST_HITS = 1_000
/** The most rows that are compared with wishes, and their bytes in all, because each must be parsed for it. */
const MOST_MEASURED = 400
const MEASURED_BYTES = 1024 * 1024
/**
 * Our search reads whole definitions and is evaluated (docs/discovery.md); how an upstream orders its rows is not
 * known.
 */
const LOCAL_WEIGHT = 2
const UPSTREAM_WEIGHT = 0.5
/** The weight of an upstream's place for a signal that shares nothing with the question. */
const VOUCHED = 0.1
/** The share of the best match that a signal needs to count as similar. */
const SIMILAR = 0.25
/** The factor for a signal that lacks a platform which the words name. */
const MISSED = 0.5

const NO_ROWS: ReadonlyMap<number, RefinableRow> = new Map()

type RankOptions = { local: Local; synonyms: Synonyms; rates(): Rates | undefined }

/** Everything that an answer may be made of. */
type Candidates = {
  corpus: Corpus
  seen: Seen
  /** Each upstream's hits, in its own order. */
  lists: readonly (readonly number[])[]
}

/** What was read from the words, and how it was used. */
export type UnderstoodWords = ReadAs & {
  isCut: boolean
  /** Whether some signal has everything that the words name besides the subject. */
  isMet: boolean
  /** The date of the rates, when prices were compared in another currency than the words name. */
  ratesAsOf?: string
}

/** How well the signals of an answer match its question, and by which words, so that a buyer can check it. */
export type Relevance = {
  /** What was looked for, by the words of the question. */
  labels: readonly string[]
  /** By hit: how well it fits against the best, 0 to 1, and one bit for each label that it has. */
  of: ReadonlyMap<number, { fit: number; match: number }>
  /** How many hits share something with the question, or were named in it: the first page shows only these. */
  first: number
}

export type Order = {
  /** Best first. */
  hits: readonly number[]
  relevance: Relevance
  /** Undefined when the request had no words. */
  read?: UnderstoodWords
}

/** Whether every comparable CPM price is above it. Other currencies are compared by rates, if there are any. */
function isTooDear(
  { pricing_options: options = [] }: RefinableRow,
  { amount, currency }: ReadPrice,
  rates: Rates | undefined,
): boolean {
  const cpms = options.flatMap((option) =>
    option.model === 'cpm' && currency ? (converted(option.cpm, option.currency, currency, rates) ?? []) : [],
  )
  return cpms.length > 0 && cpms.every((cpm) => cpm > amount)
}

/** The first hits, as many as may be compared with wishes. */
function measurable(corpus: Corpus, hits: readonly number[]): readonly number[] {
  let bytes = 0
  const first = hits.slice(0, MOST_MEASURED)
  const end = first.findIndex((hit) => {
    bytes += sizeOf(corpus, hit)
    return bytes > MEASURED_BYTES
  })
  return end < 0 ? first : first.slice(0, Math.max(1, end))
}

/** The rows of some hits, as they are shown, in their order. */
function* rowsOf(
  corpus: Corpus,
  shown: Pick<ReturnType<typeof createRowPieces>, 'row'>,
  hits: readonly number[],
): InPortions<ReadonlyMap<number, RefinableRow>> {
  const meter = createMeter()
  const rows = new Map<number, RefinableRow>()
  for (const hit of hits) {
    rows.set(hit, shown.row(hit) as RefinableRow)
    meter.did(rowUnits(sizeOf(corpus, hit)))
    if (meter.isDue()) yield
  }
  return rows
}

/** Ranks the candidates of a question. `rates`: to compare prices in other currencies than the question's. */
export function createRanking({ local, synonyms, rates }: RankOptions) {
  /** How well a hit fulfils what the words ask besides the subject and the request's own fields do not decide. */
  function wishesOf(read: ReadAs, input: GetSignalsRequest, corpus: Corpus) {
    if (read.platforms.length === 0 || selectionOf(input).destinations) return () => 1
    const { feed, extra } = corpus
    const wanted = read.platforms.flatMap((platform) => destinationKey({ type: 'platform', platform }) ?? [])
    const inFeed = anyDeployment(feed, wanted)
    const inExtra = extra && anyDeployment(extra, wanted)
    const serves = (hit: number) => (hit < feed.count ? inFeed(hit) : inExtra?.(hit - feed.count) === true)
    return (hit: number) => (serves(hit) ? 1 : MISSED)
  }

  return async (
    input: GetSignalsRequest,
    reader: Reader,
    { corpus, seen, lists }: Candidates,
  ): Promise<Order> => {
    const { criteria } = seen
    const { signal_spec: spec } = input
    const passes = await createGate(corpus, seen.entries, { criteria, reader })
    const anchors = anchorsOf(corpus, refsOf(input)).filter(passes)
    if (spec === undefined) return { hits: anchors, relevance: { labels: [], of: new Map(), first: 0 } }

    // Wishes use only what the reader is shown: hidden prices and offers must not influence the selection.
    const shown = createRowPieces(corpus, { criteria, reader })
    const measured = (hits: readonly number[]) => inTurns(rowsOf(corpus, shown, measurable(corpus, hits)))
    const named = anchors.length > 0 ? [...(await measured(anchors)).values()] : []
    const read = readBrief(synonyms, spec, local.platforms())
    const refinement = readWishes(read.rest)
    const wishes = named.length > 0 ? refinement.wishes : []
    const text = named.length > 0 ? refinedQuestion(refinement, named) : read.rest
    const weigh = wishesOf(read, input, corpus)
    const own = await local.find({ text, countries: read.countries, weigh }, corpus, MOST_HITS, passes)

    const place = new Map(own.hits.map((hit, at) => [hit, at]))
    const fitOf = (hit: number) => own.fits[place.get(hit) ?? -1] ?? 0
    const fused = fuse([
      { ids: own.hits, fits: own.fits, weight: LOCAL_WEIGHT },
      ...lists.map((list) => {
        const ids = list.filter(passes)
        return { ids, fits: ids.map((hit) => fitOf(hit) || VOUCHED), weight: UPSTREAM_WEIGHT }
      }),
    ]).filter((hit) => !anchors.includes(hit))
    const names = read.countries.length + read.platforms.length + read.lookbackDays.length > 0
    const has = (hit: number) => own.fulfils[place.get(hit) ?? -1] === true
    // What the words name besides the subject counts more than any difference in match, and more than the upstreams'
    // orders.
    const rankOf = (hit: number) => (names ? (has(hit) ? 0 : 2) + (has(hit) && weigh(hit) < 1 ? 1 : 0) : 0)
    const found = fused.filter((hit) => place.has(hit)).sort((one, other) => rankOf(one) - rankOf(other))
    const { maxCpm } = read
    const asOf = rates()?.asOf
    const priced = maxCpm ? await measured(found) : NO_ROWS
    const dear = new Set(
      maxCpm ? [...priced].flatMap(([hit, row]) => (isTooDear(row, maxCpm, rates()) ? [hit] : [])) : [],
    )
    const sharing = [...found.filter((hit) => !dear.has(hit)), ...dear]
    const vouched = fused.filter((hit) => !place.has(hit))
    const ordered =
      wishes.length === 0
        ? [...sharing, ...vouched]
        : // "cheaper" alone asks for the same thing, cheaper
          [...(await measured(sharing.filter((hit) => fitOf(hit) >= SIMILAR)))].flatMap(([hit, row]) =>
            fulfils(wishes, row, named) ? [hit] : [],
          )
    const hits = [...anchors, ...ordered].slice(0, MOST_HITS)
    const shares = anchors.length + (own.isBlind ? sharing.length + vouched.length : sharing.length)
    return {
      hits,
      relevance: {
        labels: own.labels,
        of: new Map(own.hits.map((hit, at) => [hit, { fit: fitOf(hit), match: own.matches[at] as number }])),
        first: Math.min(hits.length, shares),
      },
      read: {
        ...read,
        isMet: !names || found.some((hit) => rankOf(hit) === 0),
        isCut: own.isCut || read.unread > 0,
        ...(maxCpm?.currency && asOf !== undefined && { ratesAsOf: asOf }),
      },
    }
  }
}

export type Ranking = ReturnType<typeof createRanking>
