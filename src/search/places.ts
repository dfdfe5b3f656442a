/** The markets that buyers name, so that "in Germany" orders an answer and does not outweigh what is sought there. */
import { termOf, tokens } from './words.js'

/** ISO 3166-1 codes; their names come from the runtime's own locale data. */
const MARKETS = `AE AR AT AU BE BG BR CA CH CL CN CO CZ DE DK EE EG ES FI FR GB GR HK HR HU ID IE IL IN IT JP KE KR LT LU
  LV MX MY NG NL NO NZ PE PH PL PT RO RS SA SE SG SI SK TH TR TW UA US VN ZA`

const names = new Intl.DisplayNames('en', { type: 'region' })

/** Terms of the names, joined as groups of synonyms are named. */
export const PLACES: ReadonlySet<string> = new Set(
  MARKETS.split(/\s+/).map((code) =>
    tokens(names.of(code) ?? code)
      .map(termOf)
      .join('_'),
  ),
)
