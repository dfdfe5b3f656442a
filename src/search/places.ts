/**
 * The markets that buyers name, in their own languages, so that "in Germany", "Deutschland" and "Allemagne" are one place.
 * Names come from the runtime's own locale data (Unicode CLDR); what people call them besides, from `config/synonyms.yaml`.
 */

/** ISO 3166-1 codes of countries where data is sold. */
const MARKETS =
  `AE AR AT AU BE BG BR CA CH CL CN CO CZ DE DK EE EG ES FI FR GB GR HK HR HU ID IE IL IN IT JP KE KR
  LT LU LV MX MY NG NL NO NZ PE PH PL PT RO RS SA SE SG SI SK TH TR TW UA US VN ZA`.split(/\s+/)

const LANGUAGES = 'en de fr es it pt nl pl cs sk sv da nb fi hu ro hr el tr ru uk ja ko zh'.split(' ')

/** Names of one language that mean something else in English: in French, "chili" is a country. */
const OTHER_WORDS: ReadonlySet<string> = new Set(['indie', 'chili', 'columbia', 'norma'])

/** Countries that a phrase names. */
export type PlaceName = { phrase: string; countries: readonly string[] }

/** What the runtime's languages call the markets. */
export function namesOfMarkets(): PlaceName[] {
  const names = LANGUAGES.map((language) => new Intl.DisplayNames([language], { type: 'region' }))
  return MARKETS.flatMap((code) => {
    const phrases = new Set(names.map((name) => name.of(code)?.toLowerCase() ?? code))
    return [...phrases]
      .filter((phrase) => !OTHER_WORDS.has(phrase))
      .map((phrase) => ({ phrase, countries: [code] }))
  })
}
