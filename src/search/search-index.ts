/**
 * The full-text index over published rows, and its making: BM25 with field weights, in shared typed arrays, which the searcher
 * reads directly (docs/decisions.md#memory-and-threads). Synonyms apply both to rows and to questions: a phrase of a group gives
 * the group's own term.
 */
import { workerData } from 'node:worker_threads'
import { createMeter, drained, type InPortions, rowUnits } from '../process/portions.js'
import { answerJobs } from '../process/thread-pool.js'
import { giveWay } from '../process/threads.js'
import type { Rows } from '../snapshot/columns.js'
import type { Snapshot } from '../snapshot/snapshot.js'
import { KINDS, type Kind, parseIntervalTerm } from './spans.js'
import { termOf } from './stems.js'
import { createTermTableBuilder, lowerBound, type TermTable, termText } from './term-table.js'
import { isStop, tokens } from './words.js'

const WEIGHT = { name: 3, keyword: 2, provider: 1.5, prose: 1 }
const SATURATION = 1.2 // BM25's k1
const LENGTH_EFFECT = 0.4 // BM25's b: descriptions differ in style more than in content
const LIVE = 128
const PAIR = 2 ** 26 // more words than an index ever has; two numbers fit in a double
const LONGEST_PHRASE = 8
const MOST_COUNTRIES = 10
/**
 * The platforms where most of a feed can be activated: the ones that questions may name. Upstreams may invent
 * platforms, and comparing a question with all of them would cost too much.
 */
const MOST_PLATFORMS = 1_000
const SPAN_UNITS = 4 // reading a span is as much work as looking at this many signals
const decoder = new TextDecoder()
/** The group of all rows that name any place. */
export const ANY_PLACE = '@'

/** The fields of a published row that are searched. Upstreams choose the inner shapes, so only strings are read. */
export type SearchableRow = {
  name: string
  description: string
  signal_ref?: { signal_id: string; data_provider_domain?: string }
  data_provider?: string
  categories?: readonly string[]
  tags?: readonly string[]
  taxonomy?: { values: readonly object[] }
  segmentation_criteria?: string
  deployments?: readonly { is_live: boolean; platform?: string }[]
  coverage_percentage?: number
  countries?: readonly string[]
}

/** The spans of one kind, in the order of their terms. A question is compared with all of them, and reads no term for it. */
type Spans = { readonly firstTerm: number; readonly from: Float64Array; readonly to: Float64Array }

export type SearchIndex = {
  readonly rows: number
  /** The rows that are not withheld: only these say how rare a word is, and how long a row usually is. */
  readonly shown: number
  /** Words, spans and groups of synonyms. */
  readonly words: TermTable
  /** Neighbouring words of names and keywords, `first second`. */
  readonly pairs: TermTable
  /** Those of `words` that are spans. */
  readonly spans: Readonly<Record<Kind, Spans>>
  /** The order of rows with equal scores: live ones first, then broader coverage. 0 to 255 per row. */
  readonly prior: Uint8Array
}

/** The meaning of a phrase. `narrower`: it is one kind of the group's word. */
export type Sense = { group: string; narrower: boolean }
/** Words that belong together, as stems. */
export type Phrase = {
  stems: readonly string[]
  senses: Sense[]
  /** The countries that the phrase names. */
  countries?: readonly string[]
}

export type Synonyms = {
  /** First stem -> phrases that begin with it, longest first. */
  phrases: ReadonlyMap<string, readonly Phrase[]>
  filler: ReadonlySet<string>
  /** Stems, and names of groups. */
  qualifiers: ReadonlySet<string>
  /** One-word names of places, for recognising typing errors. */
  placeWords: readonly Phrase[]
  /** Platform id -> phrases of stems that mean it. */
  destinations: ReadonlyMap<string, readonly (readonly string[])[]>
}

/** The group of a country: rows and questions that name it in any language get this term. */
export function countryGroup(code: string): string {
  return `@${code}`
}

/** Group terms begin with a character that no token has. A narrower kind has its own term with less weight. */
export function senseTerm({ group, narrower }: Sense): string {
  return `${narrower ? '<' : '='}${group}`
}

/** The phrases that begin at `at`, longest first. */
export function phrasesAt(synonyms: Synonyms, stems: readonly string[], at: number): readonly Phrase[] {
  const known = synonyms.phrases.get(stems[at] as string) ?? []
  return known.filter((phrase) => phrase.stems.every((stem, offset) => stems[at + offset] === stem))
}

/** `pairs`: neighbouring words belong together, as in a name. In prose they often do not. */
type Field = { text: string; weight: number; pairs: boolean }

function strings(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (Array.isArray(value)) return value.flatMap(strings)
  return value && typeof value === 'object' ? Object.values(value).flatMap(strings) : []
}

function fieldsOf(row: SearchableRow): Field[] {
  const keywords = [row.categories, row.tags, row.taxonomy?.values].flatMap(strings).join(' . ')
  const id = (row.signal_ref?.signal_id ?? '').replace(/\d+/g, ' ') // serial numbers, not spans
  const provider = `${row.data_provider ?? ''} ${row.signal_ref?.data_provider_domain ?? ''}`
  const prose = `${row.description} ${row.segmentation_criteria ?? ''}`
  return [
    { text: row.name, weight: WEIGHT.name, pairs: true },
    { text: keywords, weight: WEIGHT.keyword, pairs: true },
    { text: id, weight: WEIGHT.keyword, pairs: false },
    { text: provider, weight: WEIGHT.provider, pairs: false },
    { text: prose, weight: WEIGHT.prose, pairs: false },
  ]
}

function priorOf(row: SearchableRow): number {
  const live = row.deployments?.some((deployment) => deployment.is_live) ? LIVE : 0
  return live + Math.round(Math.min(row.coverage_percentage ?? 0, 100))
}

function* spansOf(words: TermTable, kind: Kind): InPortions<Spans> {
  const meter = createMeter()
  const firstTerm = lowerBound(words, kind)
  const count = lowerBound(words, String.fromCharCode(kind.charCodeAt(0) + 1)) - firstTerm
  const numbers = () => new Float64Array(new SharedArrayBuffer(count * Float64Array.BYTES_PER_ELEMENT))
  const [from, to] = [numbers(), numbers()]
  for (let at = 0; at < count; at += 1) {
    const span = parseIntervalTerm(termText(words, firstTerm + at))
    from[at] = span?.from ?? Number.NaN
    to[at] = span?.to ?? Number.NaN
    meter.did(SPAN_UNITS)
    if (meter.isDue()) yield
  }
  return { firstTerm, from, to }
}

/** What is known of a token after its first occurrence, so that each word is stemmed once. */
type Token = { term: string; number: number; stop: boolean; startsPhrase: boolean }

/** Builds one index: `add` or `skip` each row in the order of their numbers, then `finish`. */
export function createSearchIndexBuilder(synonyms: Synonyms) {
  const words = createTermTableBuilder()
  const pairs = createTermTableBuilder()
  const known = new Map<string, Token>()
  const numbers = new Map<string, number>() // term -> number in `words`
  const names: string[] = []
  const pairNumbers = new Map<number, number>() // both words' numbers as one -> number in `pairs`
  const lengths: number[] = []
  const priors: number[] = []
  let shown = 0

  function numberOf(term: string): number {
    const number = numbers.get(term)
    if (number !== undefined) return number
    numbers.set(term, names.length)
    return names.push(term) - 1
  }

  function tokenOf(text: string): Token {
    const before = known.get(text)
    if (before) return before
    const term = termOf(text)
    const stop = isStop(term)
    const token = { term, number: stop ? -1 : numberOf(term), stop, startsPhrase: synonyms.phrases.has(term) }
    known.set(text, token)
    return token
  }

  function pairNumber(first: number, second: number): number {
    const key = first * PAIR + second
    const number = pairNumbers.get(key) ?? pairNumbers.size
    if (number === pairNumbers.size) pairNumbers.set(key, number)
    return number
  }

  function addSenses(row: number, found: readonly Token[], at: number, weight: number): void {
    const terms = found.slice(at, at + LONGEST_PHRASE).map(({ term }) => term)
    for (const sense of phrasesAt(synonyms, terms, 0).flatMap(({ senses }) => senses)) {
      words.add(row, numberOf(senseTerm(sense)), weight)
    }
  }

  function addField(row: number, { text, weight, pairs: paired }: Field): number {
    const found = tokens(text).map(tokenOf)
    let before = -1
    for (let at = 0; at < found.length; at += 1) {
      const token = found[at] as Token
      if (token.startsPhrase) addSenses(row, found, at, weight)
      if (token.stop) {
        before = -1
        continue
      }
      words.add(row, token.number, weight)
      if (before >= 0) pairs.add(row, pairNumber(before, token.number), weight)
      if (paired) before = token.number
    }
    return found.length * weight
  }

  /** The countries where a row may be used say where its people are, unless they are nearly all. */
  function addCountries(row: number, countries: readonly string[]): void {
    if (countries.length === 0 || countries.length > MOST_COUNTRIES) return
    for (const group of [ANY_PLACE, ...countries.map(countryGroup)]) {
      words.add(row, numberOf(senseTerm({ group, narrower: false })), WEIGHT.keyword)
    }
  }

  function add(row: SearchableRow): void {
    const number = lengths.length
    let length = 0
    for (const field of fieldsOf(row)) length += addField(number, field)
    addCountries(number, row.countries ?? [])
    lengths.push(length)
    priors.push(priorOf(row))
    shown += 1
  }

  /** Uses up a row number for a withheld row, which is not searched. */
  function skip(): void {
    lengths.push(0)
    priors.push(0)
  }

  /** Gives the index. It stops between its tables. */
  function* finish(): InPortions<SearchIndex> {
    const average = lengths.reduce((sum, length) => sum + length, 0) / Math.max(1, shown) || 1
    const impactOf = (row: number, weight: number) => {
      const norm = 1 - LENGTH_EFFECT + (LENGTH_EFFECT * (lengths[row] as number)) / average
      return weight / (weight + SATURATION * norm)
    }
    const prior = new Uint8Array(new SharedArrayBuffer(priors.length))
    prior.set(priors)
    const pairNames = Array.from(pairNumbers, ([key, number]) => ({
      text: `${names[Math.floor(key / PAIR)]} ${names[key % PAIR]}`,
      number,
    }))
    yield
    const table = words.finish(
      names.map((text, number) => ({ text, number })),
      impactOf,
    )
    yield
    const pairTable = pairs.finish(pairNames, impactOf)
    const spans = {
      [KINDS.number]: yield* spansOf(table, KINDS.number),
      [KINDS.money]: yield* spansOf(table, KINDS.money),
      [KINDS.days]: yield* spansOf(table, KINDS.days),
    }
    return { rows: lengths.length, shown, words: table, pairs: pairTable, spans, prior }
  }

  return { add, skip, finish }
}

/** Counts the rows with a platform. */
function createPlatformTally() {
  const uses = new Map<string, number>()
  return {
    add({ deployments = [] }: SearchableRow): void {
      for (const { platform } of deployments) {
        if (platform !== undefined) uses.set(platform, (uses.get(platform) ?? 0) + 1)
      }
    },
    /** The most used first. */
    commonest: (): string[] =>
      [...uses]
        .sort(([one, first], [other, second]) => second - first || (one < other ? -1 : 1))
        .slice(0, MOST_PLATFORMS)
        .map(([platform]) => platform),
  }
}

type SearchBuild = Pick<Snapshot, 'count' | 'rows'>
/** What a thread is told; there is an index already when it gives way. */
export type SearchJob = SearchBuild & { givesWay: boolean }
export type SearchBuilt = {
  index: SearchIndex
  /** Ids of the platforms that a question may name. */
  platforms: readonly string[]
}

function rowOf({ chunks, chunkOf, start, length }: Rows, entry: number): SearchableRow {
  const from = start[entry] as number
  const chunk = chunks[chunkOf[entry] as number] as Uint8Array
  return JSON.parse(decoder.decode(chunk.subarray(from, from + (length[entry] as number)))) as SearchableRow
}

/** Row `i` of the index is entry `i` of the snapshot. Entries that are not shown, withheld ones by default, have no words. */
export function* indexInPortions(
  { count, rows }: SearchBuild,
  synonyms: Synonyms,
  isShown = (entry: number) => rows.length[entry] !== 0,
): InPortions<SearchBuilt> {
  const meter = createMeter()
  const builder = createSearchIndexBuilder(synonyms)
  const platforms = createPlatformTally()
  for (let entry = 0; entry < count; entry += 1) {
    if (!isShown(entry)) {
      builder.skip()
      continue
    }
    const row = rowOf(rows, entry)
    builder.add(row)
    platforms.add(row)
    meter.did(rowUnits(rows.length[entry] as number))
    if (meter.isDue()) yield
  }
  return { index: yield* builder.finish(), platforms: platforms.commonest() }
}

/** In the thread that indexes what is not small; its `workerData` are the synonyms, which it gets once. */
answerJobs(import.meta.url, ({ givesWay, ...build }: SearchJob) => {
  if (givesWay) giveWay()
  return drained(indexInPortions(build, workerData as Synonyms))
})
