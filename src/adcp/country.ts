/**
 * Countries by their codes (ISO 3166-1, as the runtime's own locale data has them), and the code that somebody who wrote
 * something else probably meant: a name, lower case, a code that another one has replaced.
 */
import { nearest } from './nearest.js'

const LETTERS = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ']
const MOST_MEANT = 3

/** What the runtime calls regions in English; made when it is first needed. */
let names: Map<string, string> | undefined

function namesByCode(): ReadonlyMap<string, string> {
  if (names) return names
  const english = new Intl.DisplayNames('en', { type: 'region', fallback: 'none' })
  const pairs = LETTERS.flatMap((first) => LETTERS.map((second) => first + second)).flatMap(
    (code): [string, string][] => {
      const name = code === 'ZZ' ? undefined : english.of(code)
      return name === undefined ? [] : [[code, name]]
    },
  )
  names = new Map(pairs)
  return names
}

/** The code that stands for this one today: UK is GB. */
function currentCode(code: string): string {
  return Intl.getCanonicalLocales(`und-${code}`)[0]?.slice('und-'.length) ?? code
}

/** Whether a region has this code today. */
export function isCountry(code: string): boolean {
  return namesByCode().has(code) && currentCode(code) === code
}

/** Codes that were probably meant, the likeliest first; at most three. */
export function countriesMeant(text: string): string[] {
  const code = text.trim().toUpperCase()
  const known = namesByCode()
  if (known.has(code)) return [currentCode(code)]
  const byName = nearest(text, known.values())
  const named = [...known].flatMap(([own, name]) => (byName.includes(name) ? [currentCode(own)] : []))
  if (named.length > 0) return [...new Set(named)].slice(0, MOST_MEANT)
  // Three letters are often the other code of ISO 3166-1, which mostly begins alike; two wrong ones may be anything.
  const near = code.length === 3 ? nearest(code, known.keys()).filter(isCountry) : []
  return near.sort((one, other) => Number(code.startsWith(other)) - Number(code.startsWith(one)))
}
