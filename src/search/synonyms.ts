/**
 * Synonyms of advertising (`config/synonyms.yaml`), compiled to phrases of stems. They apply both to rows and to
 * questions: a phrase of a group gives the group's own term.
 */
import type { SynonymFile } from './synonym-file.js'
import { termOf, tokens } from './words.js'

/** ISO 3166-1 codes of countries where data is sold. */
const MARKETS =
  `AE AR AT AU BE BG BR CA CH CL CN CO CZ DE DK EE EG ES FI FR GB GR HK HR HU ID IE IL IN IT JP KE KR
  LT LU LV MX MY NG NL NO NZ PE PH PL PT RO RS SA SE SG SI SK TH TR TW UA US VN ZA`.split(/\s+/)

const LANGUAGES = 'en de fr es it pt nl pl cs sk sv da nb fi hu ro hr el tr ru uk ja ko zh'.split(' ')

/** Names in one language that mean something else in English: in French, "chili" is a country. */
const OTHER_WORDS: ReadonlySet<string> = new Set(['indie', 'chili', 'columbia', 'norma'])

/** The meaning of a phrase. `narrower`: it is one kind of the group's word. */
export type Sense = { group: string; narrower: boolean }
type Phrase = {
  stems: readonly string[]
  senses: Sense[]
  /** The countries that the phrase names. */
  countries?: readonly string[]
}

export type Synonyms = {
  /** First stem -> phrases that begin with it, longest first. */
  phrases: ReadonlyMap<string, readonly Phrase[]>
  filler: ReadonlySet<string>
  /** Stems, and names of groups. */
  qualifiers: ReadonlySet<string>
  /** One-word names of places, for recognising typing errors. */
  placeWords: readonly Phrase[]
  /** Platform id -> phrases of stems that mean it. */
  destinations: ReadonlyMap<string, readonly (readonly string[])[]>
}

/** The group of a country: rows and questions that name it in any language get this term. */
export function countryGroup(code: string): string {
  return `@${code}`
}

/** The group of all rows that name any place. */
export const ANY_PLACE = '@'

/** Group terms begin with a character that no token has. A narrower kind has its own term with less weight. */
export function senseTerm({ group, narrower }: Sense): string {
  return `${narrower ? '<' : '='}${group}`
}

function listOf(words: string): string[] {
  return words.split(',').filter((word) => word.trim() !== '')
}

function stemsOf(text: string): string[] {
  return tokens(text).map(termOf)
}

/** Countries that a phrase, as stems, names. */
type PlaceName = { stems: readonly string[]; countries: readonly string[] }

let marketNames: readonly PlaceName[] | undefined // the same for every file, and the most work of compiling one

/**
 * Country names in the languages of their buyers, so that "in Germany", "Deutschland" and "Allemagne" are one place.
 * They come from the runtime's locale data (Unicode CLDR); other common names are in `config/synonyms.yaml`.
 */
function namesOfMarkets(): readonly PlaceName[] {
  if (marketNames) return marketNames
  const names = LANGUAGES.map((language) => new Intl.DisplayNames([language], { type: 'region' }))
  marketNames = MARKETS.flatMap((code) => {
    const phrases = new Set(names.map((name) => name.of(code)?.toLowerCase() ?? code))
    return [...phrases]
      .filter((phrase) => !OTHER_WORDS.has(phrase))
      .map((phrase) => ({ stems: stemsOf(phrase), countries: [code] }))
  })
  return marketNames
}

/** The phrases that begin at `at`, longest first. */
export function phrasesAt(synonyms: Synonyms, stems: readonly string[], at: number): readonly Phrase[] {
  const known = synonyms.phrases.get(stems[at] as string) ?? []
  return known.filter((phrase) => phrase.stems.every((stem, offset) => stems[at + offset] === stem))
}

/** Compiles the file. A phrase may be in several groups; a specific word brings its synonyms with it. */
export function compileSynonyms(file: SynonymFile): Synonyms {
  const known = new Map<string, Phrase>()
  const members = new Map<string, Phrase[]>() // group -> the phrases that mean exactly it
  const learn = (text: string, group: string) => {
    const stems = stemsOf(text)
    const key = stems.join(' ')
    const phrase = known.get(key) ?? { stems, senses: [] }
    known.set(key, phrase)
    if (phrase.senses.some((sense) => sense.group === group)) return
    phrase.senses.push({ group, narrower: false })
    members.set(group, [...(members.get(group) ?? []), phrase])
  }
  const groupOf = (text: string) => {
    const stems = stemsOf(text)
    return known.get(stems.join(' '))?.senses[0]?.group ?? stems.join('_')
  }
  for (const words of file.same.map(listOf)) {
    const group = groupOf(words[0] as string)
    for (const word of words) learn(word, group)
  }
  const kinds = Object.entries(file.kinds).map(([general, special]) => {
    const groups = [general, ...listOf(special)].map((word) => {
      const group = groupOf(word)
      learn(word, group)
      return group
    })
    return groups as [string, ...string[]]
  })
  for (const [general, ...special] of kinds) {
    for (const phrase of new Set(special.flatMap((group) => members.get(group) ?? []))) {
      phrase.senses.push({ group: general, narrower: true })
    }
  }
  const called = Object.entries(file.places).flatMap(([codes, words]) =>
    listOf(words).map((phrase) => ({ stems: stemsOf(phrase), countries: codes.split(' ') })),
  )
  const placeGroups = new Set<string>()
  for (const { stems, countries } of [...namesOfMarkets(), ...called]) {
    const key = stems.join(' ')
    const place: Phrase = known.get(key) ?? { stems, senses: [] }
    known.set(key, place)
    place.countries = [...new Set([...(place.countries ?? []), ...countries])]
    for (const { group } of place.senses) placeGroups.add(group)
  }
  for (const place of known.values()) {
    for (const group of [
      ...(place.countries ?? []).map(countryGroup),
      ...(place.countries ? [ANY_PLACE] : []),
    ]) {
      place.senses.push({ group, narrower: false })
      placeGroups.add(group)
    }
  }
  const phrases = new Map<string, Phrase[]>()
  for (const phrase of known.values()) {
    const [first] = phrase.stems
    if (first !== undefined) phrases.set(first, [...(phrases.get(first) ?? []), phrase])
  }
  for (const list of phrases.values()) list.sort((one, other) => other.stems.length - one.stems.length)
  return {
    phrases,
    filler: new Set(listOf(file.filler).flatMap(stemsOf)),
    qualifiers: new Set([...listOf(file.qualifiers).map(groupOf), ...placeGroups]),
    placeWords: [...known.values()].filter(({ countries, stems }) => countries && stems.length === 1),
    destinations: new Map(
      Object.entries(file.destinations).map(([id, words]) => [id, [id, ...listOf(words)].map(stemsOf)]),
    ),
  }
}
