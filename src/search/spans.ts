/**
 * Spans in number phrases: ages ("25-34", "A18-49", "over 50"), money ("$100k+") and times ("last 12 months"). A signal about 25-34
 * partly answers a question for 25-54, so they match by their overlap.
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

/** Common shorthand for a demographic: A18-49 are adults, W25-54 women. */
const DEMOGRAPHIC: Readonly<Record<string, string>> = {
  a: 'adults',
  p: 'adults',
  w: 'women',
  f: 'women',
  m: 'men',
}

/** The text with a term in place of each number phrase, after the people that it stands for. */
export function withSpans(folded: string): string {
  return folded.replace(NUMBER_PATTERN, (...found) => {
    const groups = found.at(-1) as Record<string, string | undefined>
    return ` ${DEMOGRAPHIC[groups.who ?? ''] ?? ''} ${intervalTerm(intervalOf(groups))} `
  })
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
