/**
 * Finds the known words that somebody probably meant who wrote an unknown one: for messages that say "did you mean".
 */

const SHOWN = 3
const LONGEST = 80 // longest word to compare: longer texts are not mistyped words

const rows = [0, 1, 2].map(() => new Uint8Array(LONGEST + 1)) // shared by all comparisons, because only one runs at a time

/**
 * The number of insertions, deletions, replacements and swaps of neighbours that turn one word into the other; any
 * number above `most` when it takes more. Both words are at most `LONGEST` long.
 */
function distance(a: string, b: string, most: number): number {
  if (Math.abs(a.length - b.length) > most) return most + 1
  let [before, last, row] = rows as [Uint8Array, Uint8Array, Uint8Array]
  for (let j = 0; j <= b.length; j += 1) last[j] = j
  for (let i = 1; i <= a.length; i += 1) {
    row[0] = i
    let least = i
    for (let j = 1; j <= b.length; j += 1) {
      const change = a.charCodeAt(i - 1) === b.charCodeAt(j - 1) ? 0 : 1
      let best = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + change)
      const swapped =
        i > 1 &&
        j > 1 &&
        a.charCodeAt(i - 1) === b.charCodeAt(j - 2) &&
        a.charCodeAt(i - 2) === b.charCodeAt(j - 1)
      if (swapped) best = Math.min(best, (before[j - 2] ?? 0) + 1)
      row[j] = best
      least = Math.min(least, best)
    }
    if (least > most + 1)
      return (
        most + 1 // a swap can lower the count by one at most
      )
    ;[before, last, row] = [last, row, before]
  }
  return last[b.length] ?? 0
}

function plain(word: string): string {
  return word.toLowerCase().replace(/[^a-z0-9]/g, '')
}

/** A distance, smaller is nearer; undefined when the two words are unrelated. */
function remoteness(asked: string, word: string): number | undefined {
  const other = plain(word)
  if (other === asked) return 0
  if (asked.length >= 3 && (other.includes(asked) || (other.length >= 3 && asked.includes(other)))) return 1
  const most = Math.max(1, Math.floor(Math.max(asked.length, other.length) / 3))
  const steps = distance(asked, other, most)
  return steps <= most ? steps : undefined
}

/** At most three of `known`, nearest first; empty when nothing is near. Case and punctuation do not count. */
export function nearest(word: string, known: Iterable<string>): string[] {
  const asked = plain(word)
  if (asked === '' || asked.length > LONGEST) return []
  const near: { word: string; far: number }[] = []
  for (const one of known) {
    const far = one.length > LONGEST ? undefined : remoteness(asked, one)
    if (far !== undefined) near.push({ word: one, far })
  }
  near.sort((a, b) => a.far - b.far || (a.word < b.word ? -1 : 1))
  return near.slice(0, SHOWN).map(({ word: one }) => one)
}

/**
 * Country codes (ISO 3166-1, from the runtime's locale data), and the code that somebody probably meant who wrote a
 * name, lower case letters, or a code that another one has replaced.
 */
const LETTERS = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ']
const MOST_MEANT = 3

/** The runtime's English names of regions, created at first use. */
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

/** The current code for this one: GB for UK. */
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
  // A three-letter code mostly begins with the two letters of its country's two-letter code. An unknown two-letter code
  // gives no such hint.
  const near = code.length === 3 ? nearest(code, known.keys()).filter(isCountry) : []
  return near.sort((one, other) => Number(code.startsWith(other)) - Number(code.startsWith(one)))
}
