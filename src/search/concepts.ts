/**
 * Reads a buyer's words as concepts to look up: synonyms, spans, phrases, typing errors, and what is not wanted. A
 * question of filler words alone ("show all available signals") asks for everything.
 */
import { createMeter, type InPortions, type Meter } from '../process/portions.js'
import { MAX_CHARACTERS, misspeltPlace } from './read-brief.js'
import {
  ANY_PLACE,
  countryGroup,
  phrasesAt,
  type SearchIndex,
  type Sense,
  type Synonyms,
  senseTerm,
} from './search-index.js'
import { KINDS, overlap, parseIntervalTerm } from './spans.js'
import { corrections } from './spelling.js'
import { termOf } from './stems.js'
import { findTerm, type TermTable, termRows } from './term-table.js'
import { fold, isStop, isStopWord, tokens } from './words.js'

/** The most concepts of a question that are looked up; the answer says when others were left out. */
const MAX_CONCEPTS = 32
/** Required and excluded words: each costs a pass over the rows that have it. */
const MAX_REQUIRED = 16
const MAX_EXCLUDED = 32
const MAX_SPANS = 16
/** Spans in a question: each is compared with every span of the index. */
const MAX_SPAN_CONCEPTS = 8
/** Longer unknown words are not treated as typing errors. */
const LONGEST_MISSPELT = 40
const MIN_OVERLAP = 0.1
/** The weight of words about place, time or people's attitude: they order an answer, the subject decides it. */
const QUALIFIER = 0.5
/** A concept this much lighter than the heaviest occurs in nearly every row: it decides nothing and costs the most. */
const NEGLIGIBLE = 0.08
const WEIGHT = { group: 0.9, narrower: 0.6, part: 0.6, joined: 0.9, neighbours: 0.2 }

export type Posting = { table: TermTable; term: number; weight: number }

export type Concept = {
  /** The words of the question behind this concept. */
  label: string
  /** Heaviest first. A row scores the best of them. */
  alternatives: readonly Posting[]
  /** How much the concept distinguishes rows: rare ones count more (BM25's idf). */
  idf: number
  /** A bonus for neighbouring words, which is not a concept of its own. */
  bonus: boolean
  /** Whether it names the subject, and not place, time or people's attitude. */
  subject: boolean
}

export type Question = {
  /** Concepts that occur in some row. */
  concepts: readonly Concept[]
  /** The concepts as people see them: those of `concepts` without bonuses, then those that occur in no row. */
  labels: readonly string[]
  /** How many concepts were asked for, found or not, and their total weight. */
  asked: number
  full: number
  /** Words in quotes: a row must have every one of them. Term -1 means that no row can. */
  required: readonly Posting[]
  /** Words after "excluding", "except", "but not": a row must have none of them. */
  excluded: readonly Posting[]
  everything: boolean
  /** The requested countries, as groups of rows: rows of other places rank behind them. */
  places: readonly Posting[]
  /** The requested durations: rows with other windows rank behind them. */
  windows: readonly Posting[]
  /** Whether part of the text was left out because it is too long. */
  isCut: boolean
}

const QUOTED = /["“”]([^"“”]{2,})["“”]/g
const UNWANTED = /\b(?:excluding|exclude|except(?: for)?|but not|and not)\s+([^.,;!?]+)/g

type Reading = { index: SearchIndex; synonyms: Synonyms; meter: Meter }

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
  const known = Math.min(index.shown, Math.max(0, ...rows))
  return {
    label,
    alternatives: ordered,
    idf: share * Math.log(1 + (index.shown - known + 0.5) / (known + 0.5)),
    bonus,
    subject: !bonus && share === 1,
  }
}

/** Spans in the index that overlap a requested one, those that do most first. */
function spans({ words, spans }: SearchIndex, term: string): Posting[] {
  const asked = parseIntervalTerm(term)
  if (!asked) return []
  const { kind } = asked
  const { firstTerm, from, to } = spans[kind]
  const found: Posting[] = []
  for (let at = 0; at < from.length; at += 1) {
    const [first, last] = [from[at] as number, to[at] as number]
    if (first > asked.to || last < asked.from) continue // most of them, at little cost
    const weight = overlap(asked, { kind, from: first, to: last })
    const least = found[MAX_SPANS - 1]
    if (!(weight >= MIN_OVERLAP) || (least && weight <= least.weight)) continue
    const place = found.findIndex((one) => one.weight < weight)
    found.splice(place < 0 ? found.length : place, 0, { table: words, term: firstTerm + at, weight })
    found.length = Math.min(found.length, MAX_SPANS)
  }
  return found
}

/** The words that were probably meant by a word that no row has, as one word or as two. */
function* unknownWord(
  { words, pairs }: SearchIndex,
  token: string,
  stem: string,
  meter: Meter,
): InPortions<Posting[]> {
  if (token.length > LONGEST_MISSPELT) return []
  for (let cut = 3; cut <= token.length - 3; cut += 1) {
    const split = postings(pairs, `${termOf(token.slice(0, cut))} ${termOf(token.slice(cut))}`, WEIGHT.joined)
    if (split.length > 0) return split
  }
  const found = yield* corrections(words, stem, meter)
  return found.map(({ term, weight }) => ({ table: words, term, weight }))
}

/** Rows with synonyms of the word, or with a narrower word. */
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

/**
 * Shorter phrases inside a longer one, such as "decision makers" in "IT decision makers"; but not "car" in "electric
 * car".
 */
function parts({ index, synonyms }: Reading, terms: readonly string[], whole: readonly Sense[]): Posting[] {
  return terms.slice(1).flatMap((_, offset) =>
    phrasesAt(synonyms, terms, offset + 1).flatMap(({ senses }) => {
      const others = senses.filter(
        ({ group }) => group !== ANY_PLACE && !whole.some((sense) => sense.group === group),
      )
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

/**
 * Rows that have the word itself, or the word joined with the next one; otherwise rows with what was meant by it, such
 * as a place.
 */
function* literals(
  { index, synonyms, meter }: Reading,
  read: readonly string[],
  terms: readonly string[],
  at: number,
): InPortions<{ found: Posting[]; isPlace: boolean }> {
  const term = terms[at] as string
  const next = read[at + 1]
  const known = [
    ...postings(index.words, term, 1),
    ...(next ? postings(index.words, termOf(`${read[at]}${next}`), WEIGHT.joined) : []),
  ]
  if (known.length > 0) return { found: known, isPlace: false }
  const place = misspeltPlace(synonyms, term)
  if (place) return { found: inCountries(index, place, WEIGHT.group), isPlace: true }
  return { found: yield* unknownWord(index, read[at] as string, term, meter), isPlace: false }
}

/** Pairs of words that names contain side by side: a bonus on top of both words. */
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

/** The label of a concept: its words, with spans as people write them. */
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

/**
 * Concepts that occur in no row stay in the list: with them, a question about something unknown differs from a broad
 * one.
 */
function* conceptsOf(reading: Reading, text: string, most = MAX_CONCEPTS): InPortions<ReadConcepts> {
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
      const { found, isPlace } = yield* literals(reading, read, terms, at)
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

/** Each term once, at most `most` of them. */
function bounded({ words }: SearchIndex, found: readonly Posting[], most: number) {
  const once = new Map(
    found.map((posting) => [posting.table === words ? posting.term : `pair ${posting.term}`, posting]),
  )
  return { kept: [...once.values()].slice(0, most), isCut: once.size > most }
}

/** The terms that rows must not have. Clauses are read until there are enough terms. */
function* unwantedTerms(reading: Reading, folded: string): InPortions<{ kept: Posting[]; isCut: boolean }> {
  const found: Posting[] = []
  const seen = new Set<string>()
  for (const [, clause] of folded.matchAll(UNWANTED)) {
    if (seen.has(clause as string)) continue
    if (seen.size >= MAX_EXCLUDED) return { ...bounded(reading.index, found, MAX_EXCLUDED), isCut: true }
    seen.add(clause as string)
    const { concepts } = yield* conceptsOf(reading, clause as string)
    found.push(...concepts.flatMap(({ alternatives, bonus }) => (bonus ? [] : alternatives)))
  }
  return bounded(reading.index, found, MAX_EXCLUDED)
}

/**
 * The concepts that a text asks for. Never throws: every text is a question. `countries`: the places that were read
 * from the text.
 */
export function* readQuestion(
  index: SearchIndex,
  synonyms: Synonyms,
  text: string,
  countries: readonly string[] = [],
): InPortions<Question> {
  const folded = fold(text.slice(0, MAX_CHARACTERS))
  const reading = { index, synonyms, meter: createMeter() }
  const required = bounded(
    index,
    [...folded.matchAll(QUOTED)].flatMap(([, phrase]) => phraseWords(index, phrase as string)),
    MAX_REQUIRED,
  )
  const excluded = yield* unwantedTerms(reading, folded)
  const { concepts, windows, isCut } = yield* conceptsOf(reading, folded.replace(UNWANTED, ' '))
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
