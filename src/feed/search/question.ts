/**
 * Reads a buyer's words as concepts to look up: synonyms, spans, phrases, slips of the pen, what is not wanted.
 * A question of nothing but filler ("show all available signals") asks for everything.
 */
import { KINDS, overlap, parseIntervalTerm } from './interval.js'
import type { SearchIndex } from './search-index.js'
import { phraseAt, type Sense, type Synonyms, senseTerm } from './synonyms.js'
import { findTerm, lowerBound, type TermTable, termRows, termText } from './term-table.js'
import { corrections } from './typo.js'
import { fold, isStop, termOf, tokens } from './words.js'

/** Text beyond this is not read: a brief is a paragraph, and a question must not cost more than a walk. */
const MAX_CHARACTERS = 2_000
const MAX_CONCEPTS = 32
const MAX_SPANS = 16
const MIN_OVERLAP = 0.1
const WEIGHT = { group: 0.9, narrower: 0.6, broader: 0.35, joined: 0.9, neighbours: 0.4 }

export type Posting = { table: TermTable; term: number; weight: number }

export type Concept = {
  /** A row scores the best of them. */
  alternatives: readonly Posting[]
  /** How telling the concept is: rare ones count more (BM25's idf). */
  idf: number
  /** An extra for neighbouring words: no concept of its own. */
  bonus: boolean
}

export type Question = {
  concepts: readonly Concept[]
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

function conceptOf(index: SearchIndex, alternatives: readonly Posting[], bonus = false): Concept {
  const near = alternatives.filter(({ weight }) => bonus || weight > WEIGHT.narrower)
  const rows = (near.length > 0 ? near : alternatives).map(({ table, term }) => termRows(table, term))
  const known = Math.min(index.rows, Math.max(0, ...rows))
  return { alternatives, idf: Math.log(1 + (index.rows - known + 0.5) / (known + 0.5)), bonus }
}

function spans({ words }: SearchIndex, term: string): Posting[] {
  const asked = parseIntervalTerm(term)
  if (!asked) return []
  const [kind] = term as unknown as [string]
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

function senses({ words }: SearchIndex, found: readonly Sense[]): Posting[] {
  return found.flatMap(({ group, narrower }) => [
    ...postings(words, senseTerm({ group, narrower }), narrower ? WEIGHT.narrower : WEIGHT.group),
    ...postings(
      words,
      senseTerm({ group, narrower: !narrower }),
      narrower ? WEIGHT.broader : WEIGHT.narrower,
    ),
  ])
}

function isSpan(term: string): boolean {
  return Object.values(KINDS).some((kind) => term.startsWith(kind))
}

function conceptsOf({ index, synonyms }: Reading, text: string): Concept[] {
  const read = tokens(text)
  const terms = read.map(termOf)
  const concepts: Concept[] = []
  const plain = (at: number): Posting[] => {
    const term = terms[at] as string
    if (isSpan(term)) return spans(index, term)
    const literal = postings(index.words, term, 1)
    const next = read[at + 1]
    const joined = next ? postings(index.words, termOf(`${read[at]}${next}`), WEIGHT.joined) : []
    const known = [...literal, ...joined]
    return known.length > 0 ? known : unknownWord(index, read[at] as string, term)
  }
  const wanted = (at: number) => !isStop(terms[at] as string) && !synonyms.filler.has(terms[at] as string)
  const push = (alternatives: readonly Posting[]) => concepts.push(conceptOf(index, alternatives))
  for (let at = 0; at < terms.length && concepts.length < MAX_CONCEPTS; ) {
    const match = phraseAt(synonyms, terms, at)
    const length = match?.length ?? 1
    const literal = length === 2 ? postings(index.pairs, `${terms[at]} ${terms[at + 1]}`, 1) : []
    const meant = match ? [...literal, ...senses(index, match.senses)] : []
    if (meant.length > 0 && length > 1) push(meant)
    else if (meant.length > 0) push([...plain(at), ...meant])
    else {
      for (let word = at; word < at + length; word += 1) if (wanted(word)) push(plain(word))
    }
    at += length
  }
  const content = terms.filter((_, at) => wanted(at))
  for (const [at, term] of content.slice(1).entries()) {
    const pair = postings(index.pairs, `${content[at]} ${term}`, WEIGHT.neighbours)
    if (pair.length > 0) concepts.push(conceptOf(index, pair, true))
  }
  return concepts
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
    conceptsOf(reading, unwanted as string).flatMap(({ alternatives, bonus }) =>
      bonus ? [] : alternatives.filter(({ weight }) => weight > WEIGHT.broader),
    ),
  )
  const concepts = conceptsOf(reading, folded.replace(UNWANTED, ' '))
  return { concepts, required, excluded, everything: concepts.length === 0 && required.length === 0 }
}
