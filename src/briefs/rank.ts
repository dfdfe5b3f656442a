/**
 * One order of what a question may be answered with: our own search over all of it, the upstreams' orders with a smaller
 * weight, and what the words say beside the subject (docs/discovery.md). What shares nothing with the question comes last.
 */
import { type GetSignalsRequest, refsOf, selectionOf } from '../adcp/requests/get-signals.js'
import type { Feed, Seen } from '../feed/feed.js'
import type { Reader } from '../feed/query.js'
import { fuse } from '../search/fusion.js'
import { type ReadAs, type ReadPrice, readBrief } from '../search/reading.js'
import { fulfils, type RefinableRow, readWishes, refinedQuestion } from '../search/refinement.js'
import type { Synonyms } from '../search/synonyms.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { anchorsOf, type Ground } from './hits.js'
import type { Local } from './local.js'
import { createGate, createRowPieces } from './page.js'
import type { Relevance } from './relevance.js'

/** Longer answers are for the wholesale feed. */
const MOST_HITS = 1_000
/** Rows whose wishes are measured: they must be taken apart for it. */
const MOST_MEASURED = 400
/**
 * Our search reads whole definitions and is judged (docs/discovery.md); what an upstream's order rests on is not
 * known.
 */
const LOCAL_WEIGHT = 2
const UPSTREAM_WEIGHT = 0.5
/** What an upstream's word counts for a signal that shares nothing with the question. */
const VOUCHED = 0.1
/** The share of the best fit that a signal needs to be another one of the kind. */
const SIMILAR = 0.25
/** What is left of a score when a platform that the words name is missed. */
const MISSED = 0.5

export type RankOptions = { feed: Pick<Feed, 'see'>; local: Local; synonyms: Synonyms }

/** Everything that an answer may be made of. */
export type Candidates = {
  ground: Ground
  seen: Seen
  /** Each upstream's hits, in its own order. */
  lists: readonly (readonly number[])[]
}

export type Order = {
  /** Best first. */
  hits: readonly number[]
  relevance: Relevance
  /** Undefined when nothing was asked in words. */
  read?: ReadAs & { isCut: boolean }
}

const PLATFORM = /^platform:([^#]+)/
/** Places that are known by their words. Upstreams name them as they like: a question must not be held against all. */
const MOST_PLACES = 1_000

/** Ids of the platforms where most of the feed can be activated; read once a snapshot. */
const platformsOf = new WeakMap<Snapshot, readonly string[]>()

/** The destinations that most deployments name. */
function commonest({ destination, destinations }: Snapshot['deployments']): readonly string[] {
  if (destinations.length <= MOST_PLACES) return destinations
  const uses = new Uint32Array(destinations.length)
  for (const one of destination) uses[one] = (uses[one] as number) + 1
  const least = uses.slice().sort().at(-MOST_PLACES) as number
  const more = destinations.filter((_, at) => (uses[at] as number) > least)
  const alike = destinations.filter((_, at) => uses[at] === least)
  return [...more, ...alike.slice(0, MOST_PLACES - more.length)]
}

function platforms(snapshot: Snapshot): readonly string[] {
  const known = platformsOf.get(snapshot)
  if (known) return known
  const ids = commonest(snapshot.deployments).flatMap((key) => PLATFORM.exec(key)?.[1] ?? [])
  const found = [...new Set(ids)]
  platformsOf.set(snapshot, found)
  return found
}

/** Every CPM price in the currency that is named is above the amount. Other currencies do not compare. */
function isTooDear(
  { pricing_options: options = [] }: RefinableRow,
  { amount, currency }: ReadPrice,
): boolean {
  const cpms = options.flatMap((option) =>
    option.model === 'cpm' && option.currency === currency ? [option.cpm] : [],
  )
  return cpms.length > 0 && cpms.every((cpm) => cpm > amount)
}

export function createRanking({ feed, local, synonyms }: RankOptions) {
  /** How far a hit fulfils what the words ask beside the subject and the request itself does not decide. */
  function wishesOf(read: ReadAs, input: GetSignalsRequest, reader: Reader, ground: Ground) {
    const selection = selectionOf(input)
    if (read.platforms.length === 0 || selection.destinations) return () => 1
    const wanted = read.platforms.map((platform) => ({ type: 'platform' as const, platform }))
    const seen = feed.see({ ...selection, destinations: wanted }, reader)
    if (!seen) return () => 1
    const passes = createGate(ground, seen.entries, { criteria: seen.criteria, reader })
    return (hit: number) => (passes(hit) ? 1 : MISSED)
  }

  return (input: GetSignalsRequest, reader: Reader, { ground, seen, lists }: Candidates): Order => {
    const { criteria } = seen
    const { signal_spec: spec } = input
    const passes = createGate(ground, seen.entries, { criteria, reader })
    const anchors = anchorsOf(ground, refsOf(input)).filter(passes)
    if (spec === undefined) return { hits: anchors, relevance: { labels: [], of: new Map(), first: 0 } }

    // Wishes measure what the reader is shown: prices and offers that it is not must not show in the choice.
    const shown = createRowPieces(ground, { criteria, reader })
    const rowOf = (hit: number) => shown.row(hit) as RefinableRow
    const named = anchors.map(rowOf)
    const read = readBrief(synonyms, spec, platforms(ground.feed))
    const refinement = readWishes(read.rest)
    const wishes = named.length > 0 ? refinement.wishes : []
    const text = named.length > 0 ? refinedQuestion(refinement, named) : read.rest
    const weigh = wishesOf(read, input, reader, ground)
    const own = local({ text, countries: read.countries, weigh }, ground, MOST_HITS, passes)

    const place = new Map(own.hits.map((hit, at) => [hit, at]))
    const fitOf = (hit: number) => own.fits[place.get(hit) ?? -1] ?? 0
    const fused = fuse([
      { ids: own.hits, fits: own.fits, weight: LOCAL_WEIGHT },
      ...lists.map((list) => {
        const ids = list.filter(passes)
        return { ids, fits: ids.map((hit) => fitOf(hit) || VOUCHED), weight: UPSTREAM_WEIGHT }
      }),
    ]).filter((hit) => !anchors.includes(hit))
    const found = fused.filter((hit) => place.has(hit))
    const { maxCpm } = read
    const dear = new Set(
      maxCpm ? found.slice(0, MOST_MEASURED).filter((hit) => isTooDear(rowOf(hit), maxCpm)) : [],
    )
    const sharing = [...found.filter((hit) => !dear.has(hit)), ...dear]
    const vouched = fused.filter((hit) => !place.has(hit))
    const ordered =
      wishes.length === 0
        ? [...sharing, ...vouched]
        : sharing
            .filter((hit) => fitOf(hit) >= SIMILAR) // "cheaper" alone asks for the same thing, cheaper
            .slice(0, MOST_MEASURED)
            .filter((hit) => fulfils(wishes, rowOf(hit), named))
    const hits = [...anchors, ...ordered].slice(0, MOST_HITS)
    return {
      hits,
      relevance: {
        labels: own.labels,
        of: new Map(own.hits.map((hit, at) => [hit, { fit: fitOf(hit), match: own.matches[at] as number }])),
        first: Math.min(hits.length, anchors.length + (sharing.length > 0 ? sharing.length : vouched.length)),
      },
      read: { ...read, isCut: own.isCut || read.unread > 0 },
    }
  }
}

export type Ranking = ReturnType<typeof createRanking>
