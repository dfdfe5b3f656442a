/**
 * What a brief says besides its subject: places, time windows, prices, where it should be activated. They are read from the words,
 * shown to the caller, and used to order the answer. What must hold for every row belongs in the request's own filters
 * (docs/discovery.md).
 */
import { phrasesAt, type Synonyms } from './search-index.js'
import { KINDS, parseIntervalTerm } from './spans.js'
import { editDistance } from './spelling.js'
import { termOf } from './stems.js'
import { fold, isStop, tokens } from './words.js'

/** Characters that are read: a brief is a paragraph, and a question must not cost more than a page walk. */
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
  /** The text to search for: without the parts that were read as price or platform. */
  rest: string
  /** How many characters were left out at the end. */
  unread: number
}

const CURRENCY: Readonly<Record<string, string>> = {
  ...{ $: 'USD', usd: 'USD', dollar: 'USD', dollars: 'USD' },
  ...{ '€': 'EUR', eur: 'EUR', euro: 'EUR', euros: 'EUR' },
  ...{ '£': 'GBP', gbp: 'GBP', pound: 'GBP', pounds: 'GBP' },
  ...{ '¥': 'JPY', jpy: 'JPY', yen: 'JPY' },
  ...{ aud: 'AUD', cad: 'CAD', chf: 'CHF', sek: 'SEK', nok: 'NOK', dkk: 'DKK', pln: 'PLN', brl: 'BRL' },
}
const CURRENCY_NAMES = Object.keys(CURRENCY).sort((one, other) => other.length - one.length)
const MONEY = String.raw`(?:(?:${CURRENCY_NAMES.map((name) => name.replace('$', '\\$')).join('|')})\s?)`
const AMOUNT = String.raw`(${MONEY})?(\d{1,6}(?:[.,]\d{1,2})?)(\s?${MONEY})?(?![\p{L}\d])`
const BOUND = String.raw`(?:under|below|less than|cheaper than|up to|at most|no more than|not over|max(?:imum)?(?: of)?|<=?)\s*`
/** An amount is a price only next to the word CPM: "incomes under $50" is not one. */
const PRICE_PATTERNS = [
  new RegExp(String.raw`\bcpms?\s*(?:is|of|:)?\s*${BOUND}${AMOUNT}`, 'u'),
  new RegExp(String.raw`(?:\bat\s+|\bfor\s+)?(?<![\p{L}\d])${BOUND}${AMOUNT}\s*cpms?\b`, 'u'),
  new RegExp(
    String.raw`${AMOUNT}\s*(?:cpms?\s*(?:or less|or below|at most|max(?:imum)?)|max(?:imum)?\s*cpms?)(?!\p{L})`,
    'u',
  ),
]

/**
 * Words that must precede a platform named by a common word: "on amazon" says where people shop, "activate on amazon"
 * names the platform.
 */
const ACTIVATES = /^(?:activat|run|deploy|live|deliv|push|bui|buy|target|campaign)/
const BEFORE_PLATFORM = new Set(['on', 'in', 'via', 'through', 'for', 'to', 'with', 'the'])

function priceIn(folded: string): { price?: ReadPrice; rest: string } {
  for (const pattern of PRICE_PATTERNS) {
    const match = pattern.exec(folded)
    if (!match) continue
    const [whole, before, amount, after] = match
    const currency = CURRENCY[(before ?? after ?? '').trim()]
    const price = { amount: Number(amount?.replace(',', '.')), ...(currency && { currency }) }
    return { price, rest: `${folded.slice(0, match.index)} ${folded.slice(match.index + whole.length)}` }
  }
  return { rest: folded }
}

/** The countries that a phrase at this place names; a long word with one typing error counts as the name. */
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

/** The place of which a word that no row has may be a misspelt name. */
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

/** A platform that is named as the one to use: its name with the words before it. `to`: where its name ends. */
function platformAt(read: readonly string[], at: number, to: number) {
  let from = at
  while (from > 0 && BEFORE_PLATFORM.has(read[from - 1] as string)) from -= 1
  const isPlain = to === at + 1 && /^[a-z]+$/.test(termOf(read[at] as string))
  const verb = from > 0 && from < at && ACTIVATES.test(read[from - 1] as string)
  return isPlain && !verb ? undefined : { from: verb ? from - 1 : from, to }
}

/** The names of platforms, word by word; `id`: of the first whose name ends here. */
type PlatformNames = { id?: string; readonly next: Map<string, PlatformNames> }

/** By list of platforms, so that each list is prepared once for all questions. */
const readLists = new WeakMap<Synonyms, WeakMap<readonly string[], PlatformNames>>()

function namesOf(synonyms: Synonyms, known: readonly string[]): PlatformNames {
  const lists = readLists.get(synonyms) ?? new WeakMap<readonly string[], PlatformNames>()
  readLists.set(synonyms, lists)
  const read = lists.get(known)
  if (read) return read
  const names: PlatformNames = { next: new Map() }
  for (const id of known) {
    for (const phrase of synonyms.destinations.get(id) ?? [tokens(id).map(termOf)]) {
      let end = names
      for (const word of phrase.filter((stem) => !isStop(stem))) {
        const further = end.next.get(word) ?? { next: new Map() }
        end.next.set(word, further)
        end = further
      }
      end.id ??= id
    }
  }
  lists.set(known, names)
  return names
}

/** The longest name that begins at a word. */
function longestName(names: PlatformNames, terms: readonly string[], at: number) {
  let [end, found]: [PlatformNames | undefined, { id: string; to: number } | undefined] = [names, undefined]
  for (let to = at; end; to += 1) {
    if (to > at && end.id !== undefined) found = { id: end.id, to }
    end = end.next.get(terms[to] as string)
  }
  return found
}

/** The platforms that a text names, and the text without them. `known`: ids of the existing platforms. */
function platformsIn(synonyms: Synonyms, text: string, known: readonly string[]) {
  const read = tokens(text)
  const terms = read.map(termOf)
  const names = namesOf(synonyms, known)
  const found = new Set<string>()
  let rest = text
  for (let at = 0; at < terms.length; at += 1) {
    const name = longestName(names, terms, at)
    const place = name && platformAt(read, at, name.to)
    if (!place) continue
    found.add(name.id)
    rest = rest.replace(
      new RegExp(read.slice(place.from, place.to).join(String.raw`[^\p{L}\p{N}]+`), 'u'),
      ' ',
    )
    at = place.to - 1
  }
  return { platforms: [...found].sort(), rest }
}

/** Everything that is read from a brief. Never throws. `platforms`: ids of those where signals can be activated. */
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
