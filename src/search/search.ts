/**
 * Answers a question from the index: the best rows in order, BM25 over concepts, within a millisecond for 100,000 rows.
 * Deterministic: equals are ordered by their prior (live first, broader first), then by row.
 */
import { type Concept, type Posting, type Question, readQuestion } from './question.js'
import type { SearchIndex } from './search-index.js'
import type { Synonyms } from './synonyms.js'

/** Rows below this share of the best score are about something else: one common word met by chance. */
const CUT = 0.15
const FULL = 65_535
/** The prior decides between equals and must not lift a row over a better one. */
const PRIOR_SHARE = 1e-6

export type SearchOptions = {
  limit: number
  /** Rows the asker may see and wants: filters, destinations, countries. Default: all. */
  accept?: (row: number) => boolean
}

export type SearchHits = {
  /** Best first. */
  rows: Uint32Array
  scores: Float32Array
  /** What a row would score that says everything asked for, with all its weight: scores of two indexes compare by it. */
  full: number
  /** How many rows qualified before the limit. */
  total: number
  /** The question named nothing to look for: every row is an answer. */
  everything: boolean
}

/** A bounded heap whose root is the worst row kept. */
function createTop(limit: number, worse: (one: number, other: number) => boolean) {
  const heap: number[] = []

  function sink(from: number): void {
    let at = from
    for (;;) {
      let least = at
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < heap.length && worse(heap[child] as number, heap[least] as number)) least = child
      }
      if (least === at) return
      ;[heap[at], heap[least]] = [heap[least] as number, heap[at] as number]
      at = least
    }
  }

  function offer(row: number): void {
    if (heap.length < limit) {
      heap.push(row)
      for (let at = heap.length - 1; at > 0; ) {
        const parent = (at - 1) >> 1
        if (!worse(heap[at] as number, heap[parent] as number)) break
        ;[heap[at], heap[parent]] = [heap[parent] as number, heap[at] as number]
        at = parent
      }
    } else if (worse(heap[0] as number, row)) {
      heap[0] = row
      sink(0)
    }
  }

  return { offer, rows: () => heap.sort((one, other) => (worse(one, other) ? 1 : -1)) }
}

/** Searches one index. The scratch arrays are the searcher's own: one search at a time. */
export function createSearcher(index: SearchIndex, synonyms: Synonyms) {
  const score = new Float32Array(index.rows)
  const best = new Float32Array(index.rows) // the row's best alternative of the concept at hand
  const stamp = new Uint32Array(index.rows) // which concept `best` speaks of
  const matched = new Float32Array(index.rows) // concepts that the row has, each by how exactly
  const touched = new Uint32Array(index.rows)
  let marks = 0

  function nextMark(): number {
    if (marks === 0xffffffff) {
      stamp.fill(0)
      marks = 0
    }
    marks += 1
    return marks
  }

  /** One alternative only: no row is met twice, so nothing has to be compared. */
  function addSingle({ alternatives, idf, bonus }: Concept, count: number): number {
    const [{ table, term, weight }] = alternatives as [Posting]
    const scale = (idf * weight) / FULL
    const [part, end] = [bonus ? 0 : weight, table.postingAt[term + 1] as number]
    const { rows, impact } = table
    let seen = count
    for (let at = table.postingAt[term] as number; at < end; at += 1) {
      const row = rows[at] as number
      const before = score[row] as number
      if (before === 0) {
        touched[seen] = row
        seen += 1
      }
      score[row] = before + scale * (impact[at] as number)
      matched[row] = (matched[row] as number) + part
    }
    return seen
  }

  function addConcept(concept: Concept, count: number): number {
    if (concept.alternatives.length === 1) return addSingle(concept, count)
    const mark = nextMark()
    let seen = count
    for (const { table, term, weight } of concept.alternatives) {
      const scale = (concept.idf * weight) / FULL
      const end = table.postingAt[term + 1] as number
      for (let at = table.postingAt[term] as number; at < end; at += 1) {
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
          if (!concept.bonus) matched[row] = (matched[row] as number) + weight
        } else if (value > (best[row] as number)) {
          score[row] = (score[row] as number) + value - (best[row] as number)
          best[row] = value
        }
      }
    }
    return seen
  }

  function rowsOf({ table, term }: Posting): ReadonlySet<number> {
    if (term < 0) return new Set()
    return new Set(table.rows.subarray(table.postingAt[term], table.postingAt[term + 1]))
  }

  function gate(question: Question, accept: SearchOptions['accept']): (row: number) => boolean {
    const required = question.required.map(rowsOf)
    const excluded = question.excluded.map(rowsOf)
    if (required.length === 0 && excluded.length === 0) return accept ?? (() => true)
    return (row) =>
      required.every((rows) => rows.has(row)) &&
      !excluded.some((rows) => rows.has(row)) &&
      (accept?.(row) ?? true)
  }

  /** Of the first `count` candidates, those that are open and not far below the best. Equals in the order of rows. */
  function pick(count: number, candidate: (at: number) => number, highest: number, limit: number) {
    const worse = (one: number, other: number) => {
      const difference = (score[one] as number) - (score[other] as number)
      return difference !== 0 ? difference < 0 : one > other
    }
    const top = createTop(limit, worse)
    let total = 0
    for (let at = 0; at < count; at += 1) {
      const row = candidate(at)
      if ((score[row] as number) < highest * CUT) continue
      total += 1
      top.offer(row)
    }
    const rows = Uint32Array.from(top.rows())
    return { rows, scores: Float32Array.from(rows, (row) => score[row] as number), total }
  }

  function everything(open: (row: number) => boolean, limit: number): SearchHits {
    let count = 0
    for (let row = 0; row < index.rows; row += 1) {
      if (!open(row)) continue
      touched[count] = row
      score[row] = PRIOR_SHARE * (index.prior[row] as number)
      count += 1
    }
    const hits = pick(count, (at) => touched[at] as number, 0, limit)
    score.fill(0)
    return { ...hits, full: Number.POSITIVE_INFINITY, everything: true }
  }

  function search(text: string, { limit, accept }: SearchOptions): SearchHits {
    const question = readQuestion(index, synonyms, text)
    const open = gate(question, accept)
    if (question.everything) return everything(open, limit)
    let count = 0
    for (const concept of question.concepts) count = addConcept(concept, count)
    const { asked, full } = question
    let highest = 0
    for (let at = 0; at < count; at += 1) {
      const row = touched[at] as number
      const share = (1 + (matched[row] as number)) / (1 + asked)
      const value = (score[row] as number) * share + PRIOR_SHARE * (index.prior[row] as number)
      matched[row] = 0
      score[row] = open(row) ? value : -1
      if (value > highest && (score[row] as number) > 0) highest = value
    }
    const hits = pick(count, (at) => touched[at] as number, highest, limit)
    for (let at = 0; at < count; at += 1) score[touched[at] as number] = 0
    return { ...hits, full, everything: false }
  }

  return { search }
}

export type Searcher = ReturnType<typeof createSearcher>
