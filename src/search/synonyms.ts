/**
 * Synonyms of advertising: `config/synonyms.yaml` in the form in which people edit it, and compiled to phrases of stems. What is
 * compiled belongs to the index (search/search-index.ts), so that the thread that indexes loads no reader of files and no schemas.
 */
import { parse } from 'yaml'
import { compileCheck, type Static, Type } from '../adcp/schema.js'
import { ANY_PLACE, countryGroup, type Phrase, type Synonyms } from './search-index.js'
import { termOf } from './stems.js'
import { tokens } from './words.js'

/** ISO 3166-1 codes of countries where data is sold. */
const MARKETS =
  `AE AR AT AU BE BG BR CA CH CL CN CO CZ DE DK EE EG ES FI FR GB GR HK HR HU ID IE IL IN IT JP KE KR
  LT LU LV MX MY NG NL NO NZ PE PH PL PT RO RS SA SE SG SI SK TH TR TW UA US VN ZA`.split(/\s+/)

const LANGUAGES = 'en de fr es it pt nl pl cs sk sv da nb fi hu ro hr el tr ru uk ja ko zh'.split(' ')

/** Names in one language that mean something else in English: in French, "chili" is a country. */
const OTHER_WORDS: ReadonlySet<string> = new Set(['indie', 'chili', 'columbia', 'norma'])

const Words = Type.String({ minLength: 1, description: 'words parted by commas' })

const SynonymFile = Type.Object(
  {
    /** Filler words: a question made of them alone asks for everything. */
    filler: Words,
    /** Words about people's attitude to a subject, which do not name the subject. */
    qualifiers: Words,
    /** Words that mean the same. */
    same: Type.Array(Words),
    /** A general word, and specific words that a question for it should also find. */
    kinds: Type.Record(Type.String({ minLength: 1 }), Words),
    /** Country codes separated by spaces, and names besides the official ones. */
    places: Type.Record(Type.String({ pattern: '^[A-Z]{2}( [A-Z]{2})*$' }), Words),
    /** Ids of platforms, and their other names. */
    destinations: Type.Record(Type.String({ minLength: 1 }), Words),
  },
  { additionalProperties: false },
)
export type SynonymFile = Static<typeof SynonymFile>

const check = compileCheck(SynonymFile)

/** The message says what is wrong with the file and where. */
export class WrongSynonyms extends Error {}

function yamlOf(text: string, path: string): unknown {
  try {
    return parse(text)
  } catch (error) {
    throw new WrongSynonyms(`${path}: ${(error as Error).message}`)
  }
}

/** What the text of the file says. Throws `WrongSynonyms`. */
export function parseSynonyms(text: string, path: string): SynonymFile {
  const checked = check(yamlOf(text, path))
  if (checked.ok) return checked.value
  const [issue] = checked.issues
  throw new WrongSynonyms(`${path}: ${issue?.pointer || 'the file'} ${issue?.message}`)
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

/** A phrase may be in several groups; a specific word brings its synonyms with it. */
function compiled(file: SynonymFile): Synonyms {
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

/** Compiles the file, with the first word that somebody looks up: no start waits for it. */
export function compileSynonyms(file: SynonymFile): Synonyms {
  let made: Synonyms | undefined
  const synonyms = () => {
    made ??= compiled(file)
    return made
  }
  return {
    get phrases() {
      return synonyms().phrases
    },
    get filler() {
      return synonyms().filler
    },
    get qualifiers() {
      return synonyms().qualifiers
    },
    get placeWords() {
      return synonyms().placeWords
    },
    get destinations() {
      return synonyms().destinations
    },
  }
}
