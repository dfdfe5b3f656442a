/**
 * Turns text into terms: folded, split, stemmed, with number phrases as spans. Rows and questions use the same steps, so that
 * their terms match. Spans are ages ("25-34", "A18-49", "over 50"), money ("$100k+") and times ("last 12 months"): a signal about
 * 25-34 partly answers a question for 25-54, so they match by their overlap. Stems follow Porter's published rules (An algorithm
 * for suffix stripping, 1980) and one rule of ours for people named by what they do, so that "shoppers", "shopping" and "shop"
 * become one term.
 */

/** The first character of a span's term, by what it counts. */
export const KINDS = { number: '#', money: '$', days: '~' } as const
export type Kind = (typeof KINDS)[keyof typeof KINDS]

/** `to` is Infinity when the span is open. */
type Interval = { kind: Kind; from: number; to: number }

const DAYS_OF_UNIT: Readonly<Record<string, number>> = { h: 1 / 24, d: 1, w: 7, m: 30, y: 360 } // 12 months are one year
const SCALE_OF: Readonly<Record<string, number>> = { k: 1e3, thousand: 1e3, m: 1e6, mm: 1e6, million: 1e6 }
/** The upper end of an open span when spans are compared: this age, or for money and times this many times the higher start. */
const OLDEST = 100
const OPEN_TIMES = 4

const AMOUNT = String.raw`\d+(?:,\d{3})*(?:\.\d+)?`
const UNIT = String.raw`(?:hour|hr|day|week|month|mo|year|yr)s?(?![\p{L}\d])`
const SCALE = '(?:k|mm?|thousand|million)'
/** One number phrase; `intervalOf` reads the groups. */
const NUMBER_PATTERN = new RegExp(
  [
    String.raw`(?:\b(?:(?<more>over|above|at least|more than|older than)|(?<less>under|below|up to|less than|younger than))\s+)?`,
    String.raw`(?<![\p{L}\d])(?<who>[apwfm](?=\d{1,2}(?:-\d\d|\+)))?(?<money>[$€£]|(?:usd|eur|gbp)\s?)?`,
    String.raw`(?<a>${AMOUNT})\s?(?<as>${SCALE})?(?:(?![\p{L}\d])|(?=${UNIT}))`,
    String.raw`(?:\s?(?:-|–|to)\s?[$€£]?(?<b>${AMOUNT})\s?(?<bs>${SCALE})?(?![\p{L}\d]))?`,
    String.raw`(?<plus>\s?\+|\s(?:plus|(?:and|or) (?:over|older|up|above|more))(?![\p{L}\d]))?`,
    String.raw`(?:[\s-]?(?<unit>${UNIT})(?<old>[\s-]olds?(?![\p{L}\d]))?)?`,
  ].join(''),
  'gu',
)

function amount(digits: string, scale: string | undefined): number {
  return Number(digits.replaceAll(',', '')) * (SCALE_OF[scale ?? ''] ?? 1)
}

/** The span behind a match of `NUMBER_PATTERN`. */
function intervalOf(groups: Readonly<Record<string, string | undefined>>): Interval {
  const unit = groups.old ? undefined : groups.unit
  const kind = groups.money ? KINDS.money : unit ? KINDS.days : KINDS.number
  const each = unit ? (DAYS_OF_UNIT[unit[0] as string] ?? 1) : 1
  const first = amount(groups.a ?? '0', groups.as ?? (groups.b ? groups.bs : undefined)) * each
  if (groups.b) {
    const last = amount(groups.b, groups.bs) * each
    return { kind, from: Math.min(first, last), to: Math.max(first, last) }
  }
  if (groups.more || groups.plus) return { kind, from: first, to: Number.POSITIVE_INFINITY }
  if (groups.less) return { kind, from: 0, to: first }
  return { kind, from: first, to: first }
}

/** The term under which a span is indexed: `#25..34`, `$100000..`, `~360..360`. */
function intervalTerm({ kind, from, to }: Interval): string {
  return `${kind}${from}..${to === Number.POSITIVE_INFINITY ? '' : to}`
}

/** The span of a term made by `intervalTerm`; undefined for any other term. */
export function parseIntervalTerm(term: string): Interval | undefined {
  const [, kind, from, to] = /^([#$~])([\d.]+?)\.\.([\d.]*)$/.exec(term) ?? []
  if (!kind || !from) return undefined
  return { kind: kind as Kind, from: Number(from), to: to ? Number(to) : Number.POSITIVE_INFINITY }
}

/**
 * The overlap of two spans of one kind divided by their union, 0 to 1. A single number within a span gives 0.25, two
 * different numbers give 0.
 */
export function overlap(one: Interval, other: Interval): number {
  if (one.kind !== other.kind) return 0
  if (one.from === other.from && one.to === other.to) return 1
  if (one.from === one.to || other.from === other.to) {
    const [point, span] = one.from === one.to ? [one.from, other] : [other.from, one]
    return point >= span.from && point <= span.to ? 0.25 : 0
  }
  const open = one.kind === KINDS.number ? OLDEST : OPEN_TIMES * Math.max(one.from, other.from)
  const endOf = ({ from, to }: Interval) => (to === Number.POSITIVE_INFINITY ? Math.max(from, open) : to)
  const [a, b] = [endOf(one), endOf(other)]
  const shared = Math.min(a, b) - Math.max(one.from, other.from)
  return shared <= 0 ? 0 : shared / (Math.max(a, b) - Math.min(one.from, other.from))
}

const VOWEL = '(?:[aeiou]|(?<=[^aeiou])y)'
const CONSONANT = '(?:[^aeiouy]|(?<![^aeiou])y)'
/** The measure of a stem: how often a consonant follows a vowel in it. */
const MEASURE_OVER_0 = new RegExp(`^${CONSONANT}*${VOWEL}+${CONSONANT}`)
const MEASURE_OVER_1 = new RegExp(`^${CONSONANT}*${VOWEL}+${CONSONANT}+${VOWEL}+${CONSONANT}`)
const MEASURE_IS_1 = new RegExp(`^${CONSONANT}*${VOWEL}+${CONSONANT}+${VOWEL}*$`)
const HAS_VOWEL = new RegExp(VOWEL)
const DOUBLE_END = /([^aeiouylsz])\1$/
const SHORT_END = new RegExp(`${CONSONANT}${VOWEL}[^aeiouywx]$`)

type Rules = readonly (readonly [suffix: string, replacement: string])[]

const STEP_2: Rules = [
  ['ational', 'ate'],
  ['tional', 'tion'],
  ['enci', 'ence'],
  ['anci', 'ance'],
  ['izer', 'ize'],
  ['bli', 'ble'],
  ['alli', 'al'],
  ['entli', 'ent'],
  ['eli', 'e'],
  ['ousli', 'ous'],
  ['ization', 'ize'],
  ['ation', 'ate'],
  ['ator', 'ate'],
  ['alism', 'al'],
  ['iveness', 'ive'],
  ['fulness', 'ful'],
  ['ousness', 'ous'],
  ['aliti', 'al'],
  ['iviti', 'ive'],
  ['biliti', 'ble'],
  ['logi', 'log'],
]
const STEP_3: Rules = [
  ['icate', 'ic'],
  ['ative', ''],
  ['alize', 'al'],
  ['iciti', 'ic'],
  ['ical', 'ic'],
  ['ful', ''],
  ['ness', ''],
]
const STEP_4 =
  /^(.*?)(?:ement|ment|ent|al|ance|ence|er|ic|able|ible|ant|(?<=[st])ion|ou|ism|ate|iti|ous|ive|ize)$/

/** Words whose stem would collide with another word of advertising, and irregular plurals. */
const EXCEPTIONS: ReadonlyMap<string, string> = new Map([
  ['news', 'news'],
  ['business', 'business'],
  ['businesses', 'business'],
  ['organization', 'organization'],
  ['organizations', 'organization'],
  ['university', 'university'],
  ['universities', 'university'],
  ['policy', 'policy'],
  ['policies', 'policy'],
  ['generation', 'generation'],
  ['generations', 'generation'],
  ['animal', 'animal'],
  ['animals', 'animal'],
  ['flower', 'flower'],
  ['flowers', 'flower'],
  ['corner', 'corner'],
  ['poster', 'poster'],
  ['number', 'number'],
  ['numbers', 'number'],
  ['men', 'man'],
  ['women', 'woman'],
  ['children', 'child'],
])

function withoutPlural(word: string): string {
  if (word.endsWith('sses') || word.endsWith('ies')) return word.slice(0, -2)
  return /[^s]s$/.test(word) ? word.slice(0, -1) : word
}

function withoutPast(word: string): string {
  if (word.endsWith('eed')) return MEASURE_OVER_0.test(word.slice(0, -3)) ? word.slice(0, -1) : word
  const [, stem] = /^(.*)(?:ed|ing)$/.exec(word) ?? []
  if (stem === undefined || !HAS_VOWEL.test(stem)) return word
  if (/(?:at|bl|iz)$/.test(stem)) return `${stem}e`
  if (DOUBLE_END.test(stem)) return stem.slice(0, -1)
  return MEASURE_IS_1.test(stem) && SHORT_END.test(stem) ? `${stem}e` : stem
}

function replaced(word: string, rules: Rules): string {
  for (const [suffix, replacement] of rules) {
    if (!word.endsWith(suffix)) continue
    const stem = word.slice(0, -suffix.length)
    return MEASURE_OVER_0.test(stem) ? stem + replacement : word
  }
  return word
}

function withoutEnding(word: string): string {
  const [, stem] = STEP_4.exec(word) ?? []
  return stem !== undefined && MEASURE_OVER_1.test(stem) ? stem : word
}

function tidied(word: string): string {
  let tidy = word
  if (word.endsWith('e')) {
    const stem = word.slice(0, -1)
    if (MEASURE_OVER_1.test(stem) || (MEASURE_IS_1.test(stem) && !SHORT_END.test(stem))) tidy = stem
  }
  return tidy.endsWith('ll') && MEASURE_OVER_1.test(tidy) ? tidy.slice(0, -1) : tidy
}

/** "viewer" -> "view", "planner" -> "plan": Porter does not shorten words with such short stems. */
function withoutAgent(word: string): string {
  const [, stem] = /^(\w{3,}[^aeiou])er$/.exec(word) ?? []
  if (stem === undefined || !HAS_VOWEL.test(stem)) return word
  return DOUBLE_END.test(stem) ? stem.slice(0, -1) : stem
}

/** The term of one token of `tokens`: its stem, or the token itself when it is a span or has other letters than a-z. */
export function termOf(word: string): string {
  if (word.length < 3 || !/^[a-z]+$/.test(word)) return word
  const exception = EXCEPTIONS.get(word)
  if (exception !== undefined) return exception
  let now = withoutPast(withoutAgent(withoutPlural(word)))
  if (now.endsWith('y') && HAS_VOWEL.test(now.slice(0, -1))) now = `${now.slice(0, -1)}i`
  return tidied(withoutEnding(replaced(replaced(now, STEP_2), STEP_3)))
}

/** Common shorthand for a demographic: A18-49 are adults, W25-54 women. */
const DEMOGRAPHIC: Readonly<Record<string, string>> = {
  a: 'adults',
  p: 'adults',
  w: 'women',
  f: 'women',
  m: 'men',
}

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

function withSpans(folded: string): string {
  return folded.replace(NUMBER_PATTERN, (...found) => {
    const groups = found.at(-1) as Record<string, string | undefined>
    return ` ${DEMOGRAPHIC[groups.who ?? ''] ?? ''} ${intervalTerm(intervalOf(groups))} `
  })
}

/** Times in words, rewritten in figures: "six months" to "6 months", "last month" to "last 1 month". */
function timesInFigures(folded: string): string {
  return folded
    .replace(QUARTER, '$1 3 months')
    .replace(WORDED_TIME, (_, word?: string, before?: string) =>
      before === undefined ? `${WORDED.get(word ?? '')}` : `${before} 1 `,
    )
}

/** The tokens of a text in order: folded words, and spans as `intervalTerm` writes them. */
export function tokens(text: string): string[] {
  const folded = timesInFigures(fold(text))
  return (DIGIT.test(folded) ? withSpans(folded) : folded).match(TOKEN) ?? []
}
