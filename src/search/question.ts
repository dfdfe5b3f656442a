/**
 * Reads a buyer's words as concepts to look up: synonyms, spans, phrases, slips of the pen, what is not wanted.
 * A question of nothing but filler ("show all available signals") asks for everything.
 */
import { KINDS, overlap, parseIntervalTerm } from './interval.js'
import { PLACES } from './places.js'
import type { SearchIndex } from './search-index.js'
import { phrasesAt, type Sense, type Synonyms, senseTerm } from './synonyms.js'
import { findTerm, lowerBound, type TermTable, termRows, termText } from './term-table.js'
import { corrections } from './typo.js'
import { fold, isStop, termOf, tokens } from './words.js'

/** Text beyond this is not read: a brief is a paragraph, and a question must not cost more than a walk. */
const MAX_CHARACTERS = 2_000
const MAX_CONCEPTS = 32
const MAX_SPANS = 16
const MIN_OVERLAP = 0.1
/** Where, when and how people stand to a thing orders an answer; what the thing is decides it. */
const QUALIFIER = 0.5
/** A concept this much lighter than the heaviest is in nearly every row: it decides nothing and costs the most. */
const NEGLIGIBLE = 0.08
const WEIGHT = { group: 0.9, narrower: 0.6, part: 0.6, joined: 0.9, neighbours: 0.2 }

export type Posting = { table: TermTable; term: number; weight: number }

export type Concept = {
  /** Heaviest first. A row scores the best of them. */
  alternatives: readonly Posting[]
  /** How telling the concept is: rare ones count more (BM25's idf). */
  idf: number
  /** An extra for neighbouring words: no concept of its own. */
  bonus: boolean
}

export type Question = {
  /** Those that some row has. */
  concepts: readonly Concept[]
  /** Concepts asked for, found or not, and what all of them weigh. */
  asked: number
  full: number
  /** Words in quotes: a row must have every one of them. Term -1: no row can. */
  required: readonly Posting[]
  /** What follows "excluding", "except", "but not": a row must have none. */
  excluded: readonly Posting[]
  everything: boolean
}

const QUOTED = /["“”]([^"“”]{2,})["“”]/g
const UNWANTED = /\b(?:excluding|exclude|except(?: for)?|but not|and not)\s+([^.,;!?]+)/g

type Reading = { index: SearchIndex; synonyms: Synonyms }

function postings(table: TermTable, text: string, weight: number): Posting[] {
  const term = findTerm(table, text)
  return term < 0 ? [] : [{ table, term, weight }]
}

function conceptOf(index: SearchIndex, alternatives: readonly Posting[], share = 1, bonus = false): Concept {
  const ordered = [...alternatives].sort((one, other) => other.weight - one.weight)
  const near = alternatives.filter(({ weight }) => bonus || weight > WEIGHT.narrower)
  const rows = (near.length > 0 ? near : alternatives).map(({ table, term }) => termRows(table, term))
  const known = Math.min(index.rows, Math.max(0, ...rows))
  return {
    alternatives: ordered,
    idf: share * Math.log(1 + (index.rows - known + 0.5) / (known + 0.5)),
    bonus,
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

/** Rows that have the word itself, or written together with the next one; else what was meant by it. */
function literals(
  index: SearchIndex,
  read: readonly string[],
  terms: readonly string[],
  at: number,
): Posting[] {
  const term = terms[at] as string
  const next = read[at + 1]
  const known = [
    ...postings(index.words, term, 1),
    ...(next ? postings(index.words, termOf(`${read[at]}${next}`), WEIGHT.joined) : []),
  ]
  return known.length > 0 ? known : unknownWord(index, read[at] as string, term)
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
    return pair.length > 0 ? [conceptOf(index, pair, 1, true)] : []
  })
}

/** Concepts with nothing in the index are left in: they tell a question about nothing here from a broad one. */
function conceptsOf(reading: Reading, text: string): Concept[] {
  const { index, synonyms } = reading
  const read = tokens(text)
  const terms = read.map(termOf)
  const concepts: Concept[] = []
  const wanted = (at: number) => !isStop(terms[at] as string) && !synonyms.filler.has(terms[at] as string)
  for (let at = 0; at < terms.length && concepts.length < MAX_CONCEPTS; ) {
    const term = terms[at] as string
    const phrases = phrasesAt(synonyms, terms, at)
    const known = phrases.find(({ senses }) => equals(index, senses).length > 0)
    const length = known?.stems.length ?? 1
    const senses = known?.senses ?? []
    const same = [...equals(index, senses), ...parts(reading, terms.slice(at, at + length), senses)]
    const qualifies =
      term.startsWith(KINDS.days) ||
      synonyms.qualifiers.has(term) ||
      PLACES.has(term) ||
      senses.some(({ group }) => synonyms.qualifiers.has(group) || PLACES.has(group))
    const share = qualifies ? QUALIFIER : 1
    if (isSpan(term)) concepts.push(conceptOf(index, spans(index, term), share))
    else if (length > 1) concepts.push(conceptOf(index, same, share))
    else if (known || wanted(at)) {
      concepts.push(conceptOf(index, [...literals(index, read, terms, at), ...same], share))
    }
    at += length
  }
  return [...concepts, ...neighbours(index, terms, wanted)]
}

function phraseWords({ words }: SearchIndex, phrase: string): Posting[] {
  const content = tokens(phrase).map(termOf)
  return content
    .filter((term) => !isStop(term))
    .map((term) => ({ table: words, term: findTerm(words, term), weight: 1 }))
}

/** What a text asks of an index. Never throws: any text is a question. */
export function readQuestion(index: SearchIndex, synonyms: Synonyms, text: string): Question {
  const folded = fold(text.slice(0, MAX_CHARACTERS))
  const reading = { index, synonyms }
  const required = [...folded.matchAll(QUOTED)].flatMap(([, phrase]) => phraseWords(index, phrase as string))
  const excluded = [...folded.matchAll(UNWANTED)].flatMap(([, unwanted]) =>
    conceptsOf(reading, unwanted as string).flatMap(({ alternatives, bonus }) => (bonus ? [] : alternatives)),
  )
  const concepts = conceptsOf(reading, folded.replace(UNWANTED, ' '))
  const own = concepts.filter(({ bonus }) => !bonus)
  const heaviest = Math.max(...own.map(({ idf, alternatives }) => (alternatives.length > 0 ? idf : 0)))
  return {
    concepts: concepts.filter(
      ({ idf, alternatives }) => alternatives.length > 0 && idf >= heaviest * NEGLIGIBLE,
    ),
    asked: own.length,
    full: own.reduce((sum, { idf }) => sum + idf, 0),
    required,
    excluded,
    everything: concepts.length === 0 && required.length === 0,
  }
}
