/**
 * Reads a buyer's words as concepts to look up: synonyms, spans, phrases, slips of the pen, what is not wanted.
 * A question of nothing but filler ("show all available signals") asks for everything.
 */
import { KINDS, overlap, parseIntervalTerm } from './interval.js'
import { MAX_CHARACTERS, misspeltPlace } from './reading.js'
import type { SearchIndex } from './search-index.js'
import { ANY_PLACE, countryGroup, phrasesAt, type Sense, type Synonyms, senseTerm } from './synonyms.js'
import { findTerm, lowerBound, type TermTable, termRows, termText } from './term-table.js'
import { corrections } from './typo.js'
import { fold, isStop, isStopWord, termOf, tokens } from './words.js'

/** What of a question is read; the rest of a longer one is left out and told. */
const MAX_CONCEPTS = 32
/** Words that must or must not be there: each costs a pass over the rows that have it. */
const MAX_REQUIRED = 16
const MAX_EXCLUDED = 32
const MAX_SPANS = 16
/** Spans are compared with every span of the index. */
const MAX_SPAN_CONCEPTS = 8
/** Longer words are nobody's slip of the pen. */
const LONGEST_MISSPELT = 40
const MIN_OVERLAP = 0.1
/** Where, when and how people stand to a thing orders an answer; what the thing is decides it. */
const QUALIFIER = 0.5
/** A concept this much lighter than the heaviest is in nearly every row: it decides nothing and costs the most. */
const NEGLIGIBLE = 0.08
const WEIGHT = { group: 0.9, narrower: 0.6, part: 0.6, joined: 0.9, neighbours: 0.2 }

export type Posting = { table: TermTable; term: number; weight: number }

export type Concept = {
  /** The words of the question that it stands for. */
  label: string
  /** Heaviest first. A row scores the best of them. */
  alternatives: readonly Posting[]
  /** How telling the concept is: rare ones count more (BM25's idf). */
  idf: number
  /** An extra for neighbouring words: no concept of its own. */
  bonus: boolean
  /** It says what the thing is; not where, when, or how people stand to it. */
  subject: boolean
}

export type Question = {
  /** Those that some row has. */
  concepts: readonly Concept[]
  /** What people see of the concepts: those of `concepts` that are no bonus, then those that no row has. */
  labels: readonly string[]
  /** Concepts asked for, found or not, and what all of them weigh. */
  asked: number
  full: number
  /** Words in quotes: a row must have every one of them. Term -1: no row can. */
  required: readonly Posting[]
  /** What follows "excluding", "except", "but not": a row must have none. */
  excluded: readonly Posting[]
  everything: boolean
  /** The countries that are asked for, as groups of rows: those of other places come after. */
  places: readonly Posting[]
  /** The durations that are asked for, those of other windows come after. */
  windows: readonly Posting[]
  /** Some of the text was too much to be read. */
  isCut: boolean
}

const QUOTED = /["“”]([^"“”]{2,})["“”]/g
const UNWANTED = /\b(?:excluding|exclude|except(?: for)?|but not|and not)\s+([^.,;!?]+)/g

type Reading = { index: SearchIndex; synonyms: Synonyms }

function postings(table: TermTable, text: string, weight: number): Posting[] {
  const term = findTerm(table, text)
  return term < 0 ? [] : [{ table, term, weight }]
}

function conceptOf(
  index: SearchIndex,
  label: string,
  alternatives: readonly Posting[],
  share = 1,
  bonus = false,
): Concept {
  const ordered = [...alternatives].sort((one, other) => other.weight - one.weight)
  const near = alternatives.filter(({ weight }) => bonus || weight > WEIGHT.narrower)
  const rows = (near.length > 0 ? near : alternatives).map(({ table, term }) => termRows(table, term))
  const known = Math.min(index.rows, Math.max(0, ...rows))
  return {
    label,
    alternatives: ordered,
    idf: share * Math.log(1 + (index.rows - known + 0.5) / (known + 0.5)),
    bonus,
    subject: !bonus && share === 1,
  }
}

/** Spans in the index that share something with one that is asked for. */
function spans({ words }: SearchIndex, term: string): Posting[] {
  const asked = parseIntervalTerm(term)
  if (!asked) return []
  const kind = term.charAt(0)
  const found: Posting[] = []
  const end = lowerBound(words, String.fromCharCode(kind.charCodeAt(0) + 1))
  for (let at = lowerBound(words, kind); at < end; at += 1) {
    const span = parseIntervalTerm(termText(words, at))
    const weight = span ? overlap(asked, span) : 0
    if (weight >= MIN_OVERLAP) found.push({ table: words, term: at, weight })
  }
  return found.sort((one, other) => other.weight - one.weight || one.term - other.term).slice(0, MAX_SPANS)
}

/** A word no row has: what it may have meant, as one word or as two. */
function unknownWord({ words, pairs }: SearchIndex, token: string, stem: string): Posting[] {
  if (token.length > LONGEST_MISSPELT) return []
  for (let cut = 3; cut <= token.length - 3; cut += 1) {
    const split = postings(pairs, `${termOf(token.slice(0, cut))} ${termOf(token.slice(cut))}`, WEIGHT.joined)
    if (split.length > 0) return split
  }
  return corrections(words, stem).map(({ term, weight }) => ({ table: words, term, weight }))
}

/** Rows that say the same in other words, or name a kind of it. */
function equals({ words }: SearchIndex, found: readonly Sense[]): Posting[] {
  return found.flatMap(({ group, narrower }) =>
    narrower
      ? []
      : [
          ...postings(words, senseTerm({ group, narrower: false }), WEIGHT.group),
          ...postings(words, senseTerm({ group, narrower: true }), WEIGHT.narrower),
        ],
  )
}

function isSpan(term: string): boolean {
  return Object.values(KINDS).some((kind) => term.startsWith(kind))
}

/** Shorter phrases inside a longer one: decision makers in "IT decision makers". Not the car in "electric car". */
function parts({ index, synonyms }: Reading, terms: readonly string[], whole: readonly Sense[]): Posting[] {
  return terms.slice(1).flatMap((_, offset) =>
    phrasesAt(synonyms, terms, offset + 1).flatMap(({ senses }) => {
      const others = senses.filter(({ group }) => !whole.some((sense) => sense.group === group))
      return equals(index, others).map((posting) => ({ ...posting, weight: posting.weight * WEIGHT.part }))
    }),
  )
}

/** Rows of the countries. */
function inCountries({ words }: SearchIndex, countries: readonly string[], weight: number): Posting[] {
  return countries.flatMap((code) =>
    postings(words, senseTerm({ group: countryGroup(code), narrower: false }), weight),
  )
}

/** Rows that have the word itself, or written together with the next one; else what was meant by it, a place perhaps. */
function literals(
  { index, synonyms }: Reading,
  read: readonly string[],
  terms: readonly string[],
  at: number,
): { found: Posting[]; isPlace: boolean } {
  const term = terms[at] as string
  const next = read[at + 1]
  const known = [
    ...postings(index.words, term, 1),
    ...(next ? postings(index.words, termOf(`${read[at]}${next}`), WEIGHT.joined) : []),
  ]
  if (known.length > 0) return { found: known, isPlace: false }
  const place = misspeltPlace(synonyms, term)
  if (place) return { found: inCountries(index, place, WEIGHT.group), isPlace: true }
  return { found: unknownWord(index, read[at] as string, term), isPlace: false }
}

/** Neighbours that also stand together in names: an extra on top of both words. */
function neighbours(
  index: SearchIndex,
  terms: readonly string[],
  wanted: (at: number) => boolean,
): Concept[] {
  return terms.slice(1).flatMap((term, at) => {
    if (!wanted(at) || !wanted(at + 1)) return []
    const pair = postings(index.pairs, `${terms[at]} ${term}`, WEIGHT.neighbours)
    return pair.length > 0 ? [conceptOf(index, '', pair, 1, true)] : []
  })
}

/** What people see of a concept: its words, a span as a span. */
function labelOf(read: readonly string[]): string {
  return read
    .map((token) => {
      const span = parseIntervalTerm(token)
      if (!span) return token
      const { from, to, kind } = span
      const range =
        to === Number.POSITIVE_INFINITY ? `${from} or more` : from === to ? `${from}` : `${from} to ${to}`
      return kind === KINDS.days ? `${range} days` : range
    })
    .join(' ')
}

type ReadConcepts = { concepts: Concept[]; windows: Posting[]; isCut: boolean }

/** Concepts with nothing in the index are left in: they tell a question about nothing here from a broad one. */
function conceptsOf(reading: Reading, text: string, most = MAX_CONCEPTS): ReadConcepts {
  const { index, synonyms } = reading
  const read = tokens(text)
  const terms = read.map(termOf)
  const concepts: Concept[] = []
  const windows: Posting[] = []
  let spansLeft = MAX_SPAN_CONCEPTS
  const wanted = (at: number) => !isStop(terms[at] as string) && !synonyms.filler.has(terms[at] as string)
  let at = 0
  while (at < terms.length && concepts.length < most) {
    const term = terms[at] as string
    const phrases = phrasesAt(synonyms, terms, at).filter(
      ({ stems }) => stems.length > 1 || !isStopWord(read[at] as string),
    )
    const known = phrases.find(({ senses }) => equals(index, senses).length > 0)
    const length = known?.stems.length ?? 1
    const senses = (known?.senses ?? []).filter(({ group }) => group !== ANY_PLACE)
    const same = [...equals(index, senses), ...parts(reading, terms.slice(at, at + length), senses)]
    const qualifies =
      term.startsWith(KINDS.days) ||
      synonyms.qualifiers.has(term) ||
      senses.some(({ group }) => synonyms.qualifiers.has(group))
    const share = qualifies ? QUALIFIER : 1
    const label = labelOf(read.slice(at, at + length))
    if (isSpan(term)) {
      const found = spansLeft > 0 ? spans(index, term) : []
      if (spansLeft > 0) concepts.push(conceptOf(index, label, found, share))
      if (term.startsWith(KINDS.days)) windows.push(...found.filter(({ weight }) => weight === 1))
      spansLeft -= 1
    } else if (length > 1) concepts.push(conceptOf(index, label, same, share))
    else if (known || wanted(at)) {
      const { found, isPlace } = literals(reading, read, terms, at)
      const concept = conceptOf(index, label, [...found, ...same], share)
      concepts.push(isPlace ? { ...concept, subject: false } : concept)
    }
    at += length
  }
  const isCut = spansLeft < 0 || terms.slice(at).some((_, offset) => wanted(at + offset))
  return { concepts: [...concepts, ...neighbours(index, terms.slice(0, at), wanted)], windows, isCut }
}

function phraseWords({ words }: SearchIndex, phrase: string): Posting[] {
  const content = tokens(phrase).map(termOf)
  return content
    .filter((term) => !isStop(term))
    .map((term) => ({ table: words, term: findTerm(words, term), weight: 1 }))
}

/** Each term once, and no more than `most` of them. */
function bounded({ words }: SearchIndex, found: readonly Posting[], most: number) {
  const once = new Map(
    found.map((posting) => [posting.table === words ? posting.term : `pair ${posting.term}`, posting]),
  )
  return { kept: [...once.values()].slice(0, most), isCut: once.size > most }
}

/** What rows must not have. Clauses are read until there are enough terms. */
function unwantedTerms(reading: Reading, folded: string): { kept: Posting[]; isCut: boolean } {
  const found: Posting[] = []
  const seen = new Set<string>()
  for (const [, clause] of folded.matchAll(UNWANTED)) {
    if (seen.has(clause as string)) continue
    if (seen.size >= MAX_EXCLUDED) return { ...bounded(reading.index, found, MAX_EXCLUDED), isCut: true }
    seen.add(clause as string)
    const { concepts } = conceptsOf(reading, clause as string)
    found.push(...concepts.flatMap(({ alternatives, bonus }) => (bonus ? [] : alternatives)))
  }
  return bounded(reading.index, found, MAX_EXCLUDED)
}

/**
 * What a text asks of an index. Never throws: any text is a question. `countries`: where the rows should be of, as the
 * text was read.
 */
export function readQuestion(
  index: SearchIndex,
  synonyms: Synonyms,
  text: string,
  countries: readonly string[] = [],
): Question {
  const folded = fold(text.slice(0, MAX_CHARACTERS))
  const reading = { index, synonyms }
  const required = bounded(
    index,
    [...folded.matchAll(QUOTED)].flatMap(([, phrase]) => phraseWords(index, phrase as string)),
    MAX_REQUIRED,
  )
  const excluded = unwantedTerms(reading, folded)
  const { concepts, windows, isCut } = conceptsOf(reading, folded.replace(UNWANTED, ' '))
  const own = concepts.filter(({ bonus }) => !bonus)
  const heaviest = Math.max(...own.map(({ idf, alternatives }) => (alternatives.length > 0 ? idf : 0)))
  const decides = ({ idf, alternatives }: Concept) => alternatives.length > 0 && idf >= heaviest * NEGLIGIBLE
  const absent = own.filter(({ alternatives }) => alternatives.length === 0)
  return {
    concepts: concepts.filter(decides),
    labels: [...own.filter(decides), ...absent].map(({ label }) => label),
    asked: own.length,
    full: own.reduce((sum, { idf }) => sum + idf, 0),
    required: required.kept,
    excluded: excluded.kept,
    everything: concepts.length === 0 && required.kept.length === 0,
    places: inCountries(index, countries, 1),
    windows,
    isCut: isCut || required.isCut || excluded.isCut || text.length > MAX_CHARACTERS,
  }
}
