/**
 * The scores of rows for a question, and the best of them. The question's concepts are added up in arrays with one element per row.
 * A concept that very many rows have costs the most and decides the least. So rare concepts are added first, and as soon as rows
 * without any of them can no longer come near the best row, the common ones are added only to rows that already have a score. A
 * heap then holds as many rows as are asked for, the worst of them on top.
 */
import type { InPortions } from '../process/portions.js'
import type { Concept, Posting } from './concepts.js'
import { termRows } from './term-table.js'

const MOST_ROWS = 2 ** 20 // the most rows in an answer: a place among them and the bits of a score fill a double
/** Rows below this share of the best score are left out: they share only a common word with the question. */
export const CUT = 0.15
/** Rows that are looked at between two stops: a millisecond, or some before the code is warm. */
export const STRETCH = 16_384
/**
 * Rows that are looked at for the score that the best row has at least. Rows with the rarest concepts were found first, and
 * the best row is nearly always one of them; any row will do.
 */
const PROBED = 2_048
/** The prior orders rows with equal scores and must not lift a row over a better one. */
export const PRIOR_SHARE = 1e-6

const FULL = 65_535
/** The most that the prior adds to a score. */
export const MOST_PRIOR = PRIOR_SHARE * 255
const WHOLE = 1_000 // of a concept, so that what a row has of it is counted in whole numbers
const SUBJECT = 65_536 // the subject's part is counted above that of all concepts: 32 of them fit in 16 bits

/** Rows by score, the best first; rows with equal scores by number. */
export type RankedRows = { rows: Uint32Array; scores: Float32Array }

/**
 * Sorts rows as plain numbers, which takes a fifth of the time of a comparing function. Loops instead of `from` with a
 * function, which would take longer than the sorting itself.
 */
function ordered(rows: Uint32Array, scoreOf: Float32Array): RankedRows {
  rows.sort()
  const count = rows.length
  const scores = new Float32Array(count)
  for (let at = 0; at < count; at += 1) scores[at] = scoreOf[rows[at] as number] as number
  const bits = new Uint32Array(scores.buffer) // of positive numbers: they sort as the numbers do
  const keys = new Float64Array(count)
  for (let at = 0; at < count; at += 1) keys[at] = (bits[at] as number) * MOST_ROWS + (MOST_ROWS - 1 - at)
  keys.sort()
  const ranked = { rows: new Uint32Array(count), scores: new Float32Array(count) }
  for (let at = 0; at < count; at += 1) {
    const key = keys[count - 1 - at] as number
    const place = MOST_ROWS - 1 - (key - Math.floor(key / MOST_ROWS) * MOST_ROWS)
    ranked.rows[at] = rows[place] as number
    ranked.scores[at] = scores[place] as number
  }
  return ranked
}

/** Keeps the best `limit` rows of those that are offered, by `scoreOf`; scores are positive. */
export function createBestRows(limit: number, scoreOf: Float32Array) {
  const most = Math.min(limit, MOST_ROWS)
  const rows = new Uint32Array(Math.min(most, scoreOf.length))
  const scores = new Float32Array(rows.length)
  let size = 0

  const isWorse = (one: number, other: number) =>
    scores[one] !== scores[other]
      ? (scores[one] as number) < (scores[other] as number)
      : (rows[one] as number) > (rows[other] as number)

  function swap(one: number, other: number): void {
    const [row, score] = [rows[one] as number, scores[one] as number]
    rows[one] = rows[other] as number
    scores[one] = scores[other] as number
    rows[other] = row
    scores[other] = score
  }

  function sink(): void {
    for (let at = 0, child = 1; child < size; child = 2 * at + 1) {
      if (child + 1 < size && isWorse(child + 1, child)) child += 1
      if (!isWorse(child, at)) return
      swap(child, at)
      at = child
    }
  }

  function rise(): void {
    for (let at = size - 1; at > 0; ) {
      const parent = (at - 1) >> 1
      if (!isWorse(at, parent)) return
      swap(at, parent)
      at = parent
    }
  }

  function offer(row: number): void {
    const score = scoreOf[row] as number
    if (size < rows.length) {
      rows[size] = row
      scores[size] = score
      size += 1
      rise()
      return
    }
    const worst = scores[0] as number
    if (score < worst || (score === worst && row > (rows[0] as number))) return
    rows[0] = row
    scores[0] = score
    sink()
  }

  return { offer, ranked: () => ordered(rows.slice(0, size), scoreOf) }
}

/** How many of all concepts asked for a row has; a weaker alternative counts as a part of one. */
export const ofAll = (had: number) => (had & (SUBJECT - 1)) / WHOLE

/** The same for the concepts that name the subject. */
export const ofSubject = (had: number) => (had >>> 16) / WHOLE

/** The most that a row can have of a concept. */
type Reach = { score: number; had: number }

/**
 * The least part of its score that a row keeps in the end, 0 when it may not be shown. `share`: how much of the subject it
 * has at least, compared with the row that has most of it.
 */
type Keeps = (row: number, share: number) => number

const partOf = ({ bonus, subject }: Concept, weight: number) =>
  bonus ? 0 : Math.round(weight * WHOLE) * (subject ? SUBJECT + 1 : 1)

const postingsOf = ({ alternatives }: Concept) =>
  alternatives.reduce((sum, { table, term }) => sum + termRows(table, term), 0)

function reachOf(concept: Concept): Reach {
  const { alternatives, idf } = concept
  const most = (of: (posting: Posting) => number) => Math.max(0, ...alternatives.map(of))
  const impact = most(({ table, term, weight }) => (weight * (table.peak[term] as number)) / FULL)
  return {
    score: idf * impact,
    had: partOf(
      concept,
      most(({ weight }) => weight),
    ),
  }
}

/** Scores for an index of `size` rows, of one search at a time. */
export function createScores(size: number) {
  const score = new Float32Array(size)
  const had = new Uint32Array(size)
  const touched = new Uint32Array(size) // the rows with a score, in the order in which they were found
  const best = new Float32Array(size) // the row's best alternative of the current concept
  const stamp = new Uint32Array(size) // the concept that `best` refers to
  let marks = 0
  let count = 0
  let most = 0
  let isClosed = false

  function nextMark(): number {
    if (marks === 0xffffffff) {
      stamp.fill(0)
      marks = 0
    }
    marks += 1
    return marks
  }

  function clearStretch(from: number, to: number): void {
    for (let at = from; at < to; at += 1) {
      const row = touched[at] as number
      score[row] = 0
      had[row] = 0
    }
  }

  /** Clears the scores of the last search, also of one that was aborted, even while it cleared. */
  function* clear(): InPortions<void> {
    for (let from = 0; from < count; from += STRETCH) {
      if (from > 0) yield
      clearStretch(from, Math.min(count, from + STRETCH))
    }
    count = 0
    most = 0
    isClosed = false
  }

  // Loops over rows are plain functions, called for one stretch at a time: inside a generator they take twice as long.

  /** With a single alternative no row occurs twice, so nothing has to be compared. */
  function addSingle(concept: Concept, from: number, to: number): void {
    const [{ table, weight }] = concept.alternatives as [Posting]
    const { rows, impact } = table
    const scale = (concept.idf * weight) / FULL
    const part = partOf(concept, weight)
    let seen = count
    let top = most
    for (let at = from; at < to; at += 1) {
      const row = rows[at] as number
      const before = score[row] as number
      if (before === 0) {
        if (isClosed) continue
        touched[seen] = row
        seen += 1
      }
      score[row] = before + scale * (impact[at] as number)
      const has = (had[row] as number) + part
      had[row] = has
      if (has > top) top = has
    }
    count = seen
    most = top
  }

  function addAlternative(
    concept: Concept,
    { table, weight }: Posting,
    mark: number,
    from: number,
    to: number,
  ) {
    const { rows, impact } = table
    const scale = (concept.idf * weight) / FULL
    const part = partOf(concept, weight)
    let seen = count
    let top = most
    for (let at = from; at < to; at += 1) {
      const row = rows[at] as number
      const before = score[row] as number
      if (before === 0 && isClosed) continue
      const value = scale * (impact[at] as number)
      if (stamp[row] !== mark) {
        if (before === 0) {
          touched[seen] = row
          seen += 1
        }
        stamp[row] = mark
        best[row] = value
        score[row] = before + value
        const has = (had[row] as number) + part
        had[row] = has
        if (has > top) top = has
      } else if (value > (best[row] as number)) {
        score[row] = before + value - (best[row] as number)
        best[row] = value
      }
    }
    count = seen
    most = top
  }

  function* addConcept(concept: Concept): InPortions<void> {
    const isSingle = concept.alternatives.length === 1
    const mark = isSingle ? 0 : nextMark()
    for (const posting of concept.alternatives) {
      const { table, term } = posting
      const end = table.postingAt[term + 1] as number
      for (let from = table.postingAt[term] as number; from < end; from += STRETCH) {
        const to = Math.min(end, from + STRETCH)
        if (isSingle) addSingle(concept, from, to)
        else addAlternative(concept, posting, mark, from, to)
        if (to < end) yield
      }
    }
  }

  /**
   * The score that the best row has at least, because further concepts only add to it. `subject`: how much of the subject
   * those may still add.
   */
  function assured(subject: number, keeps: Keeps): number {
    const whole = ofSubject(most) + subject
    let highest = 0
    for (let at = 0; at < Math.min(count, PROBED); at += 1) {
      const row = touched[at] as number
      const has = had[row] as number
      const value = (score[row] as number) * (1 + ofAll(has))
      if (value > highest) highest = Math.max(highest, value * keeps(row, ofSubject(has) / whole))
    }
    return highest
  }

  /** Adds up all concepts, of which `asked` were asked for. */
  function* add(concepts: readonly Concept[], asked: number, keeps: Keeps): InPortions<void> {
    const queue = concepts.map((concept) => ({
      ...{ concept, postings: postingsOf(concept), reach: reachOf(concept) },
    }))
    queue.sort((one, other) => one.postings - other.postings)
    const left = { score: 0, had: 0 }
    for (const { reach } of queue) {
      left.score += reach.score
      left.had += reach.had
    }
    for (const { concept, postings, reach } of queue) {
      // Worth it only before a concept with more rows than those found so far.
      if (!isClosed && postings > count && ofSubject(most) >= ofSubject(left.had)) {
        const bound = left.score * (1 + ofAll(left.had)) + MOST_PRIOR * (1 + asked)
        isClosed = bound < CUT * assured(ofSubject(left.had), keeps)
      }
      yield* addConcept(concept)
      left.score -= reach.score
      left.had -= reach.had
    }
  }

  return {
    ...{ score, had, touched, clear, add },
    count: () => count,
    /** Afterwards only the first `kept` of `touched` have a score: the caller has cleared the others. */
    keep(kept: number): void {
      count = kept
    },
    /** The most that any row has of the subject. */
    subject: () => ofSubject(most),
  }
}
