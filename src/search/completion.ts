/** The word that somebody is still typing: for who searches with every key that is pressed. */
import { findTerm, lowerBound, type TermTable, termRows, termText } from './term-table.js'
import { fold, termOf } from './words.js'

const SHORTEST = 2
const MOST_LOOKED_AT = 500 // terms that begin alike; the first of very many are as good as any

/** The term that begins with `start` and stands in the most rows, as long as it finds itself when it is asked for. */
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

/** The text with its last word completed when no row has that word as it stands. */
export function completed(words: TermTable, text: string): string {
  const [last = ''] = /[\p{L}]+$/u.exec(text) ?? []
  const start = fold(last)
  if (start.length < SHORTEST || findTerm(words, termOf(start)) >= 0) return text
  const whole = frequentTerm(words, start)
  return whole === undefined ? text : text.slice(0, -last.length) + whole
}
