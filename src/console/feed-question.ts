/**
 * What the feed page asks, and the signals that it finds. The question is the query string of the page's own address, so
 * that every state of the page is a link. Parameters that get_signals knows become its arguments and are checked with its
 * schema. What is found is what get_signals shows that caller for the same selection (`feed.see`), and of this what the
 * words, the sellers and the value types leave.
 */
import { LRUCache } from 'lru-cache'
import { isRecord } from '../adcp/json.js'
import { check, compileCheck, fieldOf, Type } from '../adcp/schema.js'
import { Currency, VALUE_TYPES, type ValueType } from '../adcp/signal.js'
import { GetSignalsRequest, selectionOf } from '../adcp/signal-requests.js'
import { createTranslations, flagsOf } from '../briefs/corpus.js'
import type { Feed, Seen } from '../feed/feed.js'
import { countryTest } from '../feed/narrowing.js'
import type { Reader, Selection } from '../feed/query.js'
import { destinationKey, destinationOf } from '../merge/deployments.js'
import { handleKey } from '../merge/identity.js'
import { inTurns } from '../process/portion-turns.js'
import { createMeter, type InPortions } from '../process/portions.js'
import { createColumn, u32 } from '../process/shared-memory.js'
import { createShared } from '../process/shared-work.js'
import type { Searchable } from '../search/search-host.js'
import { digestText } from '../snapshot/digests.js'
import type { Snapshot } from '../snapshot/snapshot.js'

const MOST_TEXT = 500
const MOST_ROWS = 100
const DEFAULT_ROWS = 50
const NUMBER = /^-?\.?\d[\d.e+-]*$/i // a blank and 0x10 are numbers for `Number` alone
const MOST_HITS = 5_000 // the best rows of a search that are kept
const KEPT_BYTES = 64 * 1024 * 1024

/** The orders of the feed page. */
export const SORTS = ['relevance', 'price', 'price_desc', 'coverage', 'name', 'provider', 'sellers'] as const
export type Sort = (typeof SORTS)[number]

/** Where a page ended: of its last row the order's word and the handle's key. */
type Place = { word: string; key: Uint32Array }

export type FeedQuestion = {
  /** The arguments of get_signals that choose the same signals, without `signal_spec`. */
  asked: Readonly<Record<string, unknown>>
  selection: Selection
  /** The words that are looked for; empty for none. */
  text: string
  /** Only signals that one of these upstreams (ids) sells there, and that have one of these value types; empty for all. */
  upstreams: readonly string[]
  valueTypes: readonly ValueType[]
  account?: string
  /** When none is asked for, by relevance where words are looked for, otherwise by coverage. */
  sort: Sort
  after?: Place
  limit: number
}

/** The answer to a parameter that is wrong, for status 400. */
export type Bad = { kind: 'bad'; problem: { error: string; parameter: string } }

const checkSelection = compileCheck(
  Type.Pick(GetSignalsRequest, ['filters', 'destinations', 'countries', 'signal_spec']),
)

const { conforms: isCurrency } = check(Currency)

/** The parameters that a field of the request is read from. */
const PARAMETERS: Readonly<Record<string, string>> = {
  'filters.catalog_types': 'type',
  'filters.data_providers': 'provider',
  'filters.max_cpm': 'max_cpm',
  'filters.max_percent': 'max_percent',
  'filters.min_coverage_percentage': 'min_coverage',
  destinations: 'destination',
  countries: 'country',
}

export const bad = (parameter: string, expected: string): Bad => ({
  kind: 'bad',
  problem: { error: `Invalid ${parameter}: ${expected}`, parameter },
})

/** Whether it is `platform:NAME` or `agent:URL`, as facets name them; `#` and an account may follow. */
const isDestination = (text: string) =>
  /^(platform|agent):[^#]/.test(text) && destinationKey(destinationOf(text)) !== undefined

function numberOf(text: string | null): unknown {
  if (text === null || text === '') return undefined
  return NUMBER.test(text) && Number.isFinite(Number(text)) ? Number(text) : text // the schema refuses a text, and names the field
}

/** Without members that are undefined or an empty list; undefined when none is left. */
function saidMembers(members: Readonly<Record<string, unknown>>): Record<string, unknown> | undefined {
  const told = Object.entries(members).filter(([, value]) => !(Array.isArray(value) && value.length === 0))
  const left = told.filter(([, value]) => value !== undefined)
  return left.length > 0 ? Object.fromEntries(left) : undefined
}

function argumentsOf(params: URLSearchParams): Record<string, unknown> {
  const currency = params.get('currency')
  const filters = saidMembers({
    catalog_types: params.getAll('type'),
    data_providers: params.getAll('provider'),
    max_cpm: numberOf(params.get('max_cpm')),
    max_percent: numberOf(params.get('max_percent')),
    min_coverage_percentage: numberOf(params.get('min_coverage')),
    ext: currency ? { tributary: { currency } } : undefined,
  })
  return (
    saidMembers({
      filters,
      destinations: params.getAll('destination').map(destinationOf),
      countries: params.getAll('country').map((country) => country.toUpperCase()),
    }) ?? {}
  )
}

const isSort = (text: string): text is Sort => (SORTS as readonly string[]).includes(text)
const isValueType = (text: string): text is ValueType => (VALUE_TYPES as readonly string[]).includes(text)

/** The place that `next` named; undefined when no page of this order ends there. */
function placeOf(text: string, sort: Sort): Place | undefined {
  const [, word = '', handle = ''] = /^(.*) (\S+)$/s.exec(text) ?? []
  const key = handleKey(handle)
  const isWord =
    sort === 'name' ||
    (sort === 'provider' ? /^\d /.test(word) : NUMBER.test(word) && Number.isFinite(Number(word)))
  return key && isWord ? { word, key } : undefined
}

/** The question of a query string, or which parameter is wrong. */
export function readFeedQuestion(
  params: URLSearchParams,
): { kind: 'question'; question: FeedQuestion } | Bad {
  const text = (params.get('q') ?? '').trim()
  if (text.length > MOST_TEXT) return bad('q', `expected at most ${MOST_TEXT} characters`)
  const sort = params.get('sort') || (text === '' ? 'coverage' : 'relevance')
  if (!isSort(sort)) return bad('sort', `expected one of ${SORTS.join(', ')}`)
  const valueTypes = params.getAll('value_type')
  if (!valueTypes.every(isValueType)) return bad('value_type', `expected one of ${VALUE_TYPES.join(', ')}`)
  const limit = numberOf(params.get('limit')) ?? DEFAULT_ROWS
  if (!Number.isInteger(limit) || !((limit as number) >= 1 && (limit as number) <= MOST_ROWS)) {
    return bad('limit', `expected 1 to ${MOST_ROWS}`)
  }
  const currency = params.get('currency') // get_signals would go on without it, and compare dollars
  if (currency && !isCurrency(currency)) {
    return bad('currency', 'expected three capital letters (ISO 4217), such as USD')
  }
  if (!params.getAll('destination').every(isDestination)) {
    return bad('destination', 'expected platform:NAME or agent:URL')
  }
  const asked = argumentsOf(params)
  const checked = checkSelection(asked)
  if (!checked.ok) {
    const [{ pointer, message } = { pointer: '', message: 'is not valid' }] = checked.issues
    const field = fieldOf(pointer).replace(/\[\d+\].*$/, '')
    return bad(PARAMETERS[field] ?? 'filters', message)
  }
  const [account, place] = [params.get('account'), params.get('after')]
  const after = place ? placeOf(place, sort) : undefined
  if (place && !after) return bad('after', 'expected `next` of the page before, in the same order')
  return {
    kind: 'question',
    question: {
      asked: isRecord(checked.value) ? checked.value : {},
      selection: selectionOf(checked.value),
      ...{ text, valueTypes, upstreams: params.getAll('upstream'), sort, limit: limit as number },
      ...(account && { account }),
      ...(after && { after }),
    },
  }
}

export type Found = {
  seen: Seen
  /** In the order of the feed; for a search, the best first. */
  entries: Uint32Array
  /** How many were found; more than `entries` when a search found more than are kept. */
  total: number
}

type Kept = Omit<Found, 'seen'>

type FindOptions = {
  feed: Pick<Feed, 'see' | 'prepared'>
  searchable(): Searchable | undefined
}

/** The entries that one of the named upstreams sells, in a named country if any is, and that have one of the named value types. */
function* sifted(
  snapshot: Snapshot,
  entries: Uint32Array,
  { upstreams, valueTypes, selection: { countries } }: FeedQuestion,
): InPortions<Uint32Array> {
  const { facts, offers, slices } = snapshot
  const meter = createMeter()
  const allows = countries ? countryTest(snapshot, countries) : () => true
  const types = new Set(valueTypes.map((type) => VALUE_TYPES.indexOf(type) + 1))
  const wanted = slices.map(({ slice }) => upstreams.includes(slice.upstream))
  const isSold = (entry: number) => {
    for (let one = offers.at[entry] as number; one < (offers.at[entry + 1] as number); one += 1) {
      const isWanted = offers.stands[one] && wanted[offers.slice[one] as number]
      if (isWanted && allows(offers.countries[one] as number, meter)) return true
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
    if (!current) return { entries: new Uint32Array(0), total: 0 }
    const there = await translate(current.snapshot, snapshot)
    const entryOf = there ? (row: number) => there[row] as number : (row: number) => row
    const flags = flagsOf(snapshot, entries) // words that say nothing find every row of the index, withheld ones too
    const { searcher } = current
    const options = { limit: MOST_HITS, accept: (row: number) => flags[entryOf(row)] === 1 }
    const { rows, total } = await searcher.search(searcher.complete(text), options, signal)
    return { entries: rows.map(entryOf), total }
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
    return text === '' ? { entries: left, total: left.length } : searched(text, snapshot, left, signal)
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
