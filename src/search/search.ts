/**
 * Answers a question from the index: the best rows in order, by BM25 over concepts, in under a millisecond for 100,000
 * rows. Deterministic: rows with equal scores are ordered by their prior (live first, broader first), then by number.
 */

import { drained, type InPortions, inTurns } from '../threads/portions.js'
import { type Concept, type Posting, type Question, readQuestion } from './question.js'
import type { SearchIndex } from './search-index.js'
import { ANY_PLACE, type Synonyms, senseTerm } from './synonyms.js'
import { findTerm } from './term-table.js'
import { createTop } from './top.js'
import { completed } from './typo.js'

/** Rows below this share of the best score are left out: they share only a common word with the question. */
const CUT = 0.15
const FULL = 65_535
const UNWANTED = 255
const NO_ROWS = new Uint32Array(0)
/** The prior orders rows with equal scores and must not lift a row over a better one. */
const PRIOR_SHARE = 1e-6
/**
 * The factor for rows of another place than the requested one: they rank behind rows about the same subject in that
 * place.
 */
const ELSEWHERE = 0.45
/** The factor for rows that name no place, which may well apply there. */
const ANYWHERE = 0.7
/** The place of a row counts only when the row has this share of the best row's subject. */
export const SAME_SUBJECT = 0.6
const MOST_LABELS = 31 // one bit each
const PORTION = 16_384 // rows that are looked at between two stops: a millisecond, or some before the code is warm

type SearchOptions = {
  limit: number
  /** The countries that were read from the question. */
  countries?: readonly string[]
  /** How well a row fulfils wishes about other things than its words; 1 when it does. Default: 1 for all. */
  weigh?: (row: number) => number
  /** Rows that the caller may see and that pass filters, destinations and countries. Default: all. */
  accept?: (row: number) => boolean
}

export type SearchHits = {
  /** Best first. */
  rows: Uint32Array
  scores: Float32Array
  /** The score of a perfect row: it makes scores of two indexes comparable. */
  full: number
  /** The number of rows before the limit. */
  total: number
  /** Whether the question named nothing to search for: every row then matches. */
  everything: boolean
  /** The concepts searched for, by the words of the question; per row, one bit for each that it has. */
  labels: readonly string[]
  matches: Uint32Array
  /**
   * Per row, 1 when its subject matches as well as the best row's, and its place and window match as far as the
   * question names them.
   */
  fulfils: Uint8Array
  /** How much of the question's subject the best row has: it makes searches of two indexes comparable. */
  subject: number
  /** Whether part of the question was left out because it is too long. */
  isCut: boolean
}

type Picked = Pick<SearchHits, 'rows' | 'scores' | 'total'>

function rowsOf({ table, term }: Posting): Uint32Array {
  return term < 0 ? NO_ROWS : table.rows.subarray(table.postingAt[term], table.postingAt[term + 1])
}

/** One flag per row: whether it names any place. */
function placedRows({ words, rows }: SearchIndex): Uint8Array {
  const flags = new Uint8Array(rows)
  const term = findTerm(words, senseTerm({ group: ANY_PLACE, narrower: false }))
  for (const row of rowsOf({ table: words, term, weight: 1 })) flags[row] = 1
  return flags
}

/** Searches one index. It reuses its arrays, so it runs one search at a time. */
function createSearch(index: SearchIndex, synonyms: Synonyms, placed: Uint8Array) {
  const score = new Float32Array(index.rows)
  const best = new Float32Array(index.rows) // the row's best alternative of the current concept
  const stamp = new Uint32Array(index.rows) // the concept that `best` refers to
  const matched = new Float32Array(index.rows) // concepts that the row has, weighted by how exactly it matches
  const touched = new Uint32Array(index.rows)
  const about = new Float32Array(index.rows) // the same for concepts that name the subject
  const isMeant = new Uint8Array(index.rows) // for rows that matched anything: the result of `fulfils`
  const inWindow = new Uint8Array(index.rows)
  const tally = new Uint8Array(index.rows) // how many required words a row has; 255 when it has an excluded one
  let marks = 0

  function nextMark(): number {
    if (marks === 0xffffffff) {
      stamp.fill(0)
      marks = 0
    }
    marks += 1
    return marks
  }

  // What walks over rows is a plain function of a stretch of them: in a generator the same loop takes twice as long.

  /** With a single alternative no row occurs twice, so nothing has to be compared. */
  function addSingle(
    { alternatives, idf, bonus, subject }: Concept,
    from: number,
    to: number,
    count: number,
  ) {
    const [{ table, weight }] = alternatives as [Posting]
    const scale = (idf * weight) / FULL
    const part = bonus ? 0 : weight
    const thing = subject ? weight : 0
    const { rows, impact } = table
    let seen = count
    for (let at = from; at < to; at += 1) {
      const row = rows[at] as number
      const before = score[row] as number
      if (before === 0) {
        touched[seen] = row
        seen += 1
      }
      score[row] = before + scale * (impact[at] as number)
      matched[row] = (matched[row] as number) + part
      about[row] = (about[row] as number) + thing
    }
    return seen
  }

  function addAlternative(
    { idf, bonus, subject }: Concept,
    { table, weight }: Posting,
    mark: number,
    from: number,
    to: number,
    count: number,
  ): number {
    const scale = (idf * weight) / FULL
    let seen = count
    for (let at = from; at < to; at += 1) {
      const row = table.rows[at] as number
      const value = scale * (table.impact[at] as number)
      if (stamp[row] !== mark) {
        if (score[row] === 0) {
          touched[seen] = row
          seen += 1
        }
        stamp[row] = mark
        best[row] = value
        score[row] = (score[row] as number) + value
        if (!bonus) matched[row] = (matched[row] as number) + weight
        if (subject) about[row] = (about[row] as number) + weight
      } else if (value > (best[row] as number)) {
        score[row] = (score[row] as number) + value - (best[row] as number)
        best[row] = value
      }
    }
    return seen
  }

  function* addConcept(concept: Concept, count: number): InPortions<number> {
    const isSingle = concept.alternatives.length === 1
    const mark = isSingle ? 0 : nextMark()
    let seen = count
    for (const posting of concept.alternatives) {
      const { table, term } = posting
      const end = table.postingAt[term + 1] as number
      for (let from = table.postingAt[term] as number; from < end; from += PORTION) {
        const to = Math.min(end, from + PORTION)
        seen = isSingle
          ? addSingle(concept, from, to, seen)
          : addAlternative(concept, posting, mark, from, to, seen)
        if (to < end) yield
      }
    }
    return seen
  }

  function gate({ required, excluded }: Question, accept: SearchOptions['accept']) {
    if (required.length === 0 && excluded.length === 0) return accept ?? (() => true)
    tally.fill(0)
    for (const posting of required) {
      for (const row of rowsOf(posting)) tally[row] = (tally[row] as number) + 1
    }
    for (const posting of excluded) for (const row of rowsOf(posting)) tally[row] = UNWANTED
    return (row: number) => tally[row] === required.length && (accept?.(row) ?? true)
  }

  /** The factor for a row's place, when the question names one. */
  function whereabouts({ places }: Question): ((row: number) => number) | undefined {
    if (places.length === 0) return undefined
    const mark = nextMark()
    for (const posting of places) for (const row of rowsOf(posting)) stamp[row] = mark
    return (row) => (stamp[row] === mark ? 1 : placed[row] ? ELSEWHERE : ANYWHERE)
  }

  /** For rows in this order, the bits of their concepts. */
  function* matchesOf(concepts: readonly Concept[], rows: Uint32Array): InPortions<Uint32Array> {
    const places = new Map(Array.from(rows, (row, at) => [row, at]))
    const bits = new Uint32Array(rows.length)
    for (const row of rows) matched[row] = 1
    const mark = (found: Uint32Array, bit: number) => {
      for (const row of found) {
        if (matched[row] === 0) continue
        const place = places.get(row) as number
        bits[place] = ((bits[place] as number) | bit) >>> 0
      }
    }
    for (const [at, { alternatives }] of concepts.entries()) {
      for (const posting of alternatives) {
        const found = rowsOf(posting)
        for (let from = 0; from < found.length; from += PORTION) {
          if (from > 0) yield
          mark(found.subarray(from, from + PORTION), 1 << at)
        }
      }
    }
    for (const row of rows) matched[row] = 0
    return bits
  }

  /**
   * Of the first `count` candidates, those that may be shown and are not far below the best. Rows with equal scores
   * keep their order.
   */
  function* pick(
    count: number,
    candidate: (at: number) => number,
    highest: number,
    limit: number,
  ): InPortions<Picked> {
    const worse = (one: number, other: number) => {
      const difference = (score[one] as number) - (score[other] as number)
      return difference !== 0 ? difference < 0 : one > other
    }
    const top = createTop(limit, worse)
    let total = 0
    const offer = (from: number, to: number) => {
      for (let at = from; at < to; at += 1) {
        const row = candidate(at)
        if ((score[row] as number) < highest * CUT) continue
        total += 1
        top.offer(row)
      }
    }
    for (let from = 0; from < count; from += PORTION) {
      if (from > 0) yield
      offer(from, Math.min(count, from + PORTION))
    }
    const rows = Uint32Array.from(top.rows())
    return { rows, scores: Float32Array.from(rows, (row) => score[row] as number), total }
  }

  function* everything(
    open: (row: number) => boolean,
    { limit, weigh = () => 1 }: SearchOptions,
    isCut: boolean,
  ): InPortions<SearchHits> {
    let count = 0
    const take = (from: number, to: number) => {
      for (let row = from; row < to; row += 1) {
        if (!open(row)) continue
        touched[count] = row
        score[row] = weigh(row) * (1 + PRIOR_SHARE * (index.prior[row] as number))
        count += 1
      }
    }
    for (let from = 0; from < index.rows; from += PORTION) {
      if (from > 0) yield
      take(from, Math.min(index.rows, from + PORTION))
    }
    const hits = yield* pick(count, (at) => touched[at] as number, 0, limit)
    score.fill(0)
    const matches = new Uint32Array(hits.rows.length)
    const fulfils = new Uint8Array(hits.rows.length).fill(1)
    return {
      ...hits,
      full: Number.POSITIVE_INFINITY,
      everything: true,
      labels: [],
      matches,
      fulfils,
      subject: 0,
      isCut,
    }
  }

  return function* search(text: string, options: SearchOptions): InPortions<SearchHits> {
    const { limit, accept, weigh, countries } = options
    const question = readQuestion(index, synonyms, text, countries)
    const open = gate(question, accept)
    if (question.everything) return yield* everything(open, options, question.isCut)
    let count = 0
    for (const concept of question.concepts) count = yield* addConcept(concept, count)
    const { asked, full, isCut } = question
    const where = whereabouts(question)
    const { windows } = question
    inWindow.fill(windows.length === 0 ? 1 : 0)
    for (const posting of windows) for (const row of rowsOf(posting)) inWindow[row] = 1
    let most = 0
    for (let at = 0; at < count; at += 1) most = Math.max(most, about[touched[at] as number] as number)
    let highest = 0
    const weighed = (from: number, to: number) => {
      for (let at = from; at < to; at += 1) {
        const row = touched[at] as number
        const share = (1 + (matched[row] as number)) / (1 + asked)
        const isAbout = (about[row] as number) >= most * SAME_SUBJECT
        const place = where ? (isAbout ? where(row) : ELSEWHERE) : 1
        isMeant[row] = isAbout && place === 1 ? (inWindow[row] as number) : 0
        const wish = weigh ? weigh(row) : 1
        const value =
          (score[row] as number) * share * place * wish + PRIOR_SHARE * (index.prior[row] as number)
        matched[row] = 0
        about[row] = 0
        score[row] = open(row) ? value : -1
        if (value > highest && (score[row] as number) > 0) highest = value
      }
    }
    for (let from = 0; from < count; from += PORTION) {
      if (from > 0) yield
      weighed(from, Math.min(count, from + PORTION))
    }
    const hits = yield* pick(count, (at) => touched[at] as number, highest, limit)
    for (let at = 0; at < count; at += 1) score[touched[at] as number] = 0
    const own = question.concepts.filter(({ bonus }) => !bonus).slice(0, MOST_LABELS)
    const matches = yield* matchesOf(own, hits.rows)
    const fulfils = Uint8Array.from(hits.rows, (row) => isMeant[row] as number)
    return {
      ...hits,
      full,
      everything: false,
      labels: question.labels,
      matches,
      fulfils,
      subject: most,
      isCut,
    }
  }
}

/** Searches one index. */
export function createSearcher(index: SearchIndex, synonyms: Synonyms) {
  const placed = placedRows(index)
  const search = createSearch(index, synonyms, placed)
  let patient: typeof search | undefined // with arrays of its own: others search while it stops
  let last: Promise<unknown> = Promise.resolve()

  return {
    search: (text: string, options: SearchOptions): SearchHits => drained(search(text, options)),
    /** The same in portions, after those that were asked before: a word of a million rows takes a tenth of a second. */
    searchInTurns(text: string, options: SearchOptions): Promise<SearchHits> {
      const found = last.then(() => {
        patient ??= createSearch(index, synonyms, placed)
        return inTurns(patient(text, options))
      })
      last = found.catch(() => {
        patient = undefined // its arrays may hold what it had found so far
      })
      return found
    },
    complete: (text: string) => completed(index.words, text),
  }
}

export type Searcher = ReturnType<typeof createSearcher>
