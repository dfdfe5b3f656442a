/** Words of an index that a question may mean: by a word that is misspelt, and by the beginning of one. */
import type { InPortions, Meter } from '../process/portions.js'
import { termOf } from './stems.js'
import { findTerm, lowerBound, type TermTable, termRows, termText } from './term-table.js'
import { fold } from './words.js'

const SHORTEST_CORRECTED = 4 // shorter words resemble too many others
const LONG_WORD = 8 // from this length on, two errors are allowed
const MOST_CORRECTIONS = 3
const COMPARED_UNITS = 8 // comparing a word with another is as much work as looking at this many signals
const SHORTEST_BEGINNING = 2
const MOST_LOOKED_AT = 500 // terms with this beginning to look at; with more, the first ones are good enough

/** A word of the index that a misspelt word of a question may have meant. */
type Correction = { term: number; weight: number }

/** Edits (insert, drop, change, swap of neighbours) from one word to the other; `most + 1` when there are more. */
export function editDistance(one: string, other: string, most: number): number {
  if (Math.abs(one.length - other.length) > most) return most + 1
  let before: number[] = []
  let above = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (let row = 1; row <= one.length; row += 1) {
    const current = [row]
    let best = row
    for (let at = 1; at <= other.length; at += 1) {
      const same = one[row - 1] === other[at - 1]
      let edits = Math.min(
        (above[at] as number) + 1,
        (current[at - 1] as number) + 1,
        (above[at - 1] as number) + (same ? 0 : 1),
      )
      const swapped = row > 1 && at > 1 && one[row - 1] === other[at - 2] && one[row - 2] === other[at - 1]
      if (swapped) edits = Math.min(edits, (before[at - 2] as number) + 1)
      current.push(edits)
      best = Math.min(best, edits)
    }
    if (best > most) return most + 1
    before = above
    above = current
  }
  return Math.min(above[other.length] as number, most + 1)
}

/** The closest words with the same first letter: nearest first, then the more frequent. At most three. */
export function* corrections(words: TermTable, stem: string, meter: Meter): InPortions<Correction[]> {
  const most = stem.length >= LONG_WORD ? 2 : stem.length >= SHORTEST_CORRECTED ? 1 : 0
  const first = stem.charCodeAt(0)
  if (most === 0 || !/^[a-z]+$/.test(stem)) return []
  const found: { term: number; edits: number; rows: number }[] = []
  const end = lowerBound(words, String.fromCharCode(first + 1))
  for (let term = lowerBound(words, String.fromCharCode(first)); term < end; term += 1) {
    const length = (words.textAt[term + 1] as number) - (words.textAt[term] as number)
    meter.did(1)
    if (meter.isDue()) yield
    if (Math.abs(length - stem.length) > most) continue
    meter.did(COMPARED_UNITS)
    const edits = editDistance(stem, termText(words, term), most)
    if (edits <= most) found.push({ term, edits, rows: termRows(words, term) })
  }
  found.sort((one, other) => one.edits - other.edits || other.rows - one.rows || one.term - other.term)
  const [nearest] = found
  return found
    .filter(({ edits }) => edits === nearest?.edits)
    .slice(0, MOST_CORRECTIONS)
    .map(({ term, edits }) => ({ term, weight: edits === 1 ? 0.7 : 0.5 }))
}

/** The term that begins with `start` and occurs in most rows, among those that a question with this very word finds. */
function frequentTerm(words: TermTable, start: string): string | undefined {
  let best: { text: string; rows: number } | undefined
  const first = lowerBound(words, start)
  for (let term = first; term < Math.min(words.count, first + MOST_LOOKED_AT); term += 1) {
    const text = termText(words, term)
    if (!text.startsWith(start)) break
    const rows = termRows(words, term)
    if ((best && rows <= best.rows) || termOf(text) !== text) continue
    best = { text, rows }
  }
  return best?.text
}

/** The text with its last word completed, when no row has that word as typed: for searches after every key press. */
export function lastWordCompleted(words: TermTable, text: string): string {
  const [last = ''] = /[\p{L}]+$/u.exec(text) ?? []
  const start = fold(last)
  if (start.length < SHORTEST_BEGINNING || findTerm(words, termOf(start)) >= 0) return text
  const whole = frequentTerm(words, start)
  return whole === undefined ? text : text.slice(0, -last.length) + whole
}
