/**
 * What a question says beside what it is about: places, how far back, what it may cost, where it is to be activated. Read
 * from the words, told to whoever asked, and used to order an answer; what must hold for every row belongs in the
 * request's own filters (docs/discovery.md).
 */
import { KINDS, parseIntervalTerm } from './interval.js'
import { phrasesAt, type Synonyms } from './synonyms.js'
import { editDistance } from './typo.js'
import { fold, isStop, termOf, tokens } from './words.js'

/** Text beyond this is not read: a brief is a paragraph, and a question must not cost more than a walk. */
export const MAX_CHARACTERS = 2_000
const SHORTEST_MISSPELT = 6

export type ReadPrice = { amount: number; currency?: string }

export type ReadAs = {
  /** ISO 3166-1 codes, sorted. */
  countries: readonly string[]
  /** Days, as in "last 30 days". */
  lookbackDays: readonly number[]
  maxCpm?: ReadPrice
  /** Ids of platforms. */
  platforms: readonly string[]
  /** What of the text is searched for: without what was read as price or platform. */
  rest: string
  /** How many characters were too many to be read. */
  unread: number
}

const CURRENCY: Readonly<Record<string, string>> = {
  ...{ $: 'USD', usd: 'USD', dollar: 'USD', dollars: 'USD' },
  ...{ '€': 'EUR', eur: 'EUR', euro: 'EUR', euros: 'EUR' },
  ...{ '£': 'GBP', gbp: 'GBP', pound: 'GBP', pounds: 'GBP' },
  ...{ '¥': 'JPY', jpy: 'JPY', yen: 'JPY' },
  ...{ aud: 'AUD', cad: 'CAD', chf: 'CHF', sek: 'SEK', nok: 'NOK', dkk: 'DKK', pln: 'PLN', brl: 'BRL' },
}
const names = Object.keys(CURRENCY).sort((one, other) => other.length - one.length)
const MONEY = String.raw`(?:(?:${names.map((name) => name.replace('$', '\\$')).join('|')})\s?)`
const AMOUNT = String.raw`(${MONEY})?(\d{1,6}(?:[.,]\d{1,2})?)(\s?${MONEY})?(?![\p{L}\d])`
const BOUND = String.raw`(?:under|below|less than|cheaper than|up to|at most|no more than|not over|max(?:imum)?(?: of)?|<=?)\s*`
/** A price is one only beside the word CPM: "incomes under $50" is none. */
const PRICES = [
  new RegExp(String.raw`\bcpms?\s*(?:is|of|:)?\s*${BOUND}${AMOUNT}`, 'u'),
  new RegExp(String.raw`(?:\bat\s+|\bfor\s+)?(?<![\p{L}\d])${BOUND}${AMOUNT}\s*cpms?\b`, 'u'),
  new RegExp(
    String.raw`${AMOUNT}\s*(?:cpms?\s*(?:or less|or below|at most|max(?:imum)?)|max(?:imum)?\s*cpms?)(?!\p{L})`,
    'u',
  ),
]

/** Words before a platform of one common word: "on amazon" says where people shop, "activate on amazon" does not. */
const ACTIVATES = /^(?:activat|run|deploy|live|deliv|push|bui|buy|target|campaign)/
const BEFORE_PLATFORM = new Set(['on', 'in', 'via', 'through', 'for', 'to', 'with', 'the'])

function priceIn(folded: string): { price?: ReadPrice; rest: string } {
  for (const pattern of PRICES) {
    const match = pattern.exec(folded)
    if (!match) continue
    const [whole, before, amount, after] = match
    const currency = CURRENCY[(before ?? after ?? '').trim()]
    const price = { amount: Number(amount?.replace(',', '.')), ...(currency && { currency }) }
    return { price, rest: `${folded.slice(0, match.index)} ${folded.slice(match.index + whole.length)}` }
  }
  return { rest: folded }
}

/** Countries of a phrase at this place; a long word one slip away from a name is that name. */
function countriesAt(synonyms: Synonyms, terms: readonly string[], at: number) {
  const named = phrasesAt(synonyms, terms, at).find(({ countries }) => countries)
  if (named) return { countries: named.countries ?? [], length: named.stems.length }
  const term = terms[at] as string
  if (term.length < SHORTEST_MISSPELT || synonyms.phrases.has(term)) return undefined
  const meant = synonyms.placeWords.filter(
    ({ stems: [stem = ''] }) =>
      stem.length >= SHORTEST_MISSPELT && stem[0] === term[0] && editDistance(stem, term, 1) === 1,
  )
  return meant.length > 0
    ? { countries: meant.flatMap(({ countries = [] }) => countries), length: 1 }
    : undefined
}

/** The place that a word nobody's rows have may be a misspelt name of. */
export function misspeltPlace(synonyms: Synonyms, term: string): readonly string[] | undefined {
  return countriesAt(synonyms, [term], 0)?.countries
}

function placesIn(synonyms: Synonyms, terms: readonly string[]): string[] {
  const found = new Set<string>()
  for (let at = 0; at < terms.length; ) {
    const place = countriesAt(synonyms, terms, at)
    for (const country of place?.countries ?? []) found.add(country)
    at += place?.length ?? 1
  }
  return [...found].sort()
}

function daysIn(terms: readonly string[]): number[] {
  return terms.flatMap((term) => {
    const span = term.startsWith(KINDS.days) ? parseIntervalTerm(term) : undefined
    return span && Number.isFinite(span.to) ? [span.to] : []
  })
}

/** Where a platform is named as one that shall be used: the words before it, and its own. */
function platformAt(
  read: readonly string[],
  terms: readonly string[],
  at: number,
  phrase: readonly string[],
) {
  if (!phrase.every((stem, offset) => terms[at + offset] === stem)) return undefined
  let from = at
  while (from > 0 && BEFORE_PLATFORM.has(read[from - 1] as string)) from -= 1
  const isPlain = phrase.length === 1 && /^[a-z]+$/.test(phrase[0] as string)
  const verb = from > 0 && from < at && ACTIVATES.test(read[from - 1] as string)
  return isPlain && !verb ? undefined : { from: verb ? from - 1 : from, to: at + phrase.length }
}

type PlatformPhrase = { id: string; phrase: readonly string[] }
type PlatformPhrases = ReadonlyMap<string, readonly PlatformPhrase[]>

/** By list of platforms: each is read once for all questions. */
const readLists = new WeakMap<Synonyms, WeakMap<readonly string[], PlatformPhrases>>()

/** What the platforms are called, the longest first, by the first word of each. */
function phrasesOf(synonyms: Synonyms, known: readonly string[]): PlatformPhrases {
  const lists = readLists.get(synonyms) ?? new WeakMap<readonly string[], PlatformPhrases>()
  readLists.set(synonyms, lists)
  const read = lists.get(known)
  if (read) return read
  const phrases = known.flatMap((id) => {
    const words = synonyms.destinations.get(id) ?? [tokens(id).map(termOf)]
    return words.map((phrase) => ({ id, phrase: phrase.filter((stem) => !isStop(stem)) }))
  })
  phrases.sort((one, other) => other.phrase.length - one.phrase.length)
  const made = new Map<string, PlatformPhrase[]>()
  for (const each of phrases) {
    const [first] = each.phrase
    if (first === undefined) continue
    const alike = made.get(first)
    if (alike) alike.push(each)
    else made.set(first, [each])
  }
  lists.set(known, made)
  return made
}

/** Platforms that are named, and the text without them. `known`: ids of those that there are. */
function platformsIn(synonyms: Synonyms, text: string, known: readonly string[]) {
  const read = tokens(text)
  const terms = read.map(termOf)
  const phrases = phrasesOf(synonyms, known)
  const found = new Set<string>()
  let rest = text
  for (let at = 0; at < terms.length; at += 1) {
    for (const { id, phrase } of phrases.get(terms[at] as string) ?? []) {
      const place = platformAt(read, terms, at, phrase)
      if (!place) continue
      found.add(id)
      rest = rest.replace(
        new RegExp(read.slice(place.from, place.to).join(String.raw`[^\p{L}\p{N}]+`), 'u'),
        ' ',
      )
      at = place.to - 1
      break
    }
  }
  return { platforms: [...found].sort(), rest }
}

/** What a brief is read as. `platforms`: ids of those where something can be activated. */
export function readBrief(synonyms: Synonyms, text: string, platforms: readonly string[]): ReadAs {
  const { price, rest: unpriced } = priceIn(fold(text.slice(0, MAX_CHARACTERS)))
  const { platforms: named, rest } = platformsIn(synonyms, unpriced, platforms)
  const terms = tokens(rest).map(termOf)
  return {
    countries: placesIn(synonyms, terms),
    lookbackDays: [...new Set(daysIn(terms))],
    ...(price && { maxCpm: price }),
    platforms: named,
    rest,
    unread: Math.max(0, text.length - MAX_CHARACTERS),
  }
}
