/**
 * Turns text into terms: folded, split, stemmed (stems.ts), with number phrases as spans (spans.ts). Rows and questions use the same
 * steps, so that their terms match.
 */
import { withSpans } from './spans.js'
import { termOf } from './stems.js'

const ASCII = /^[\0-\x7f]*$/
const DIGIT = /\d/
const COUNTRY = /\bU\.?S\.?A?\b(?!\p{L})/gu // before lower-casing: "us" is another word
const APOSTROPHE = /['’](?:s(?!\p{L}))?/gu
/** Times in words: "the last six months", "past quarter". */
const WORDED = new Map(
  'one two three four five six seven eight nine ten eleven twelve'
    .split(' ')
    .map((word, at) => [word, at + 1]),
)
const WORDED_TIME = new RegExp(
  String.raw`\b(?:(${[...WORDED.keys()].join('|')})(?=[\s-](?:hour|day|week|month|year))|(last|past|previous)\s+(?=(?:week|month|year)\b))`,
  'g',
)
const QUARTER = /\b(last|past|previous) quarter\b/g
const TOKEN = /[#$~][\d.]+?\.\.[\d.]*|[\p{L}\p{N}]+/gu

/** Words without meaning for a search: neither indexed nor searched for. */
const STOP_WORDS =
  `a about after all also am an and any are as at available be been but by can could do does each for from get give had has
  have having her his how i if in into is it its like list ll looking me more most my of off on only or other our out over
  please s se she show so some such t than that the their them then there these they this those through to under up us use using
  want was we were what when where which who whom whose will with within would you your`.split(/\s+/)
const STOP = new Set(STOP_WORDS.map(termOf))
const STOP_FORMS = new Set(STOP_WORDS)

/** Lower case without accents and possessive endings; ligatures and width variants become plain letters. */
export function fold(text: string): string {
  const plain = ASCII.test(text) ? text : text.normalize('NFKD').replace(/\p{M}/gu, '')
  const lower = plain.replace(COUNTRY, 'usa').toLowerCase().replaceAll('ß', 'ss')
  return lower.includes("'") || lower.includes('’') ? lower.replace(APOSTROPHE, '') : lower
}

/** True for terms that are skipped. */
export function isStop(term: string): boolean {
  return STOP.has(term)
}

/** True for the words themselves only: "use" is skipped, but "used" means second hand. */
export function isStopWord(token: string): boolean {
  return STOP_FORMS.has(token)
}

/** Times in words, rewritten in figures: "six months" to "6 months", "last month" to "last 1 month". */
function timesInFigures(folded: string): string {
  return folded
    .replace(QUARTER, '$1 3 months')
    .replace(WORDED_TIME, (_, word?: string, before?: string) =>
      before === undefined ? `${WORDED.get(word ?? '')}` : `${before} 1 `,
    )
}

/** The tokens of a text in order: folded words, and the terms of spans. */
export function tokens(text: string): string[] {
  const folded = timesInFigures(fold(text))
  return (DIGIT.test(folded) ? withSpans(folded) : folded).match(TOKEN) ?? []
}
