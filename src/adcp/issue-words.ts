/**
 * Puts one violated rule of a request schema into words that a person knows: what was expected, and what to send instead.
 * The words never repeat a value of the request, because an untrusted string is never echoed. When the value resembles a
 * word of a closed set, or a country, the known words that somebody probably meant are named.
 */
import type { ErrorObject } from 'ajv'
import { howMany } from './answer.js'

const SHOWN = 3 // words that are suggested
const LONGEST = 80 // longest word to compare: longer texts are not mistyped words

const LETTERS = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ']
const COUNTRY = '^[A-Z]{2}$'

/** What the patterns of our schemas stand for. A pattern that is not here fails a test. */
const PATTERNS: Readonly<Record<string, string>> = {
  [COUNTRY]: 'a country as two capital letters (ISO 3166-1), such as DE',
  '^[A-Z]{3}$': 'a currency as three capital letters (ISO 4217), such as USD',
  '^[A-Z]{2}[A-Z0-9]{2,13}$': 'a VAT number without blanks, such as DE123456789',
  '^[a-z0-9_]+$': 'an id of lower-case letters, digits and _',
  '^[a-zA-Z0-9_-]+$': 'an id of letters, digits, _ and -',
  '^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$':
    'a domain in lower case, such as acme.example',
  '^[A-Za-z0-9_.:-]{16,255}$': '16 to 255 letters, digits and _ . : -, such as a UUID',
  '^[A-Za-z0-9_.:-]{1,255}$': '1 to 255 letters, digits and _ . : -',
  '^\\d+\\.\\d+(-[a-zA-Z0-9.-]+)?$': 'a release such as "3.1", without a patch level',
  '^[\\x20-\\x7E]+$': 'printable ASCII characters',
  '\\S': 'a word that is not blank',
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'a text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  null: 'null',
}

const FORMATS: Readonly<Record<string, string>> = {
  'date-time': 'a moment such as 2026-03-01T00:00:00Z',
  email: 'an address such as billing@acme.example',
  date: 'a day such as 2026-03-01',
  uri: 'an absolute url, such as https://acme.example/path',
}

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
      return least // a swap can lower the count by one at most
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

/** The question that suggests known words ("did you mean ..."); empty when no word is near. */
export function didYouMean(near: readonly string[]): string {
  return near.length > 0 ? `Did you mean ${near.map((word) => JSON.stringify(word)).join(' or ')}?` : ''
}

/** The words of the closed set that resemble a text in the request. */
function meant(value: unknown, words: readonly string[]): string {
  return didYouMean(typeof value === 'string' ? nearest(value, words) : [])
}

/** English names by country code (ISO 3166-1, from the runtime's locale data), created at first use. */
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

/**
 * The country codes that somebody probably meant who wrote a name, lower case letters, or a code that another one has
 * replaced: the likeliest first, at most three.
 */
export function countriesMeant(text: string): string[] {
  const code = text.trim().toUpperCase()
  const known = namesByCode()
  if (known.has(code)) return [currentCode(code)]
  const byName = nearest(text, known.values())
  const named = [...known].flatMap(([own, name]) => (byName.includes(name) ? [currentCode(own)] : []))
  if (named.length > 0) return [...new Set(named)].slice(0, SHOWN)
  // A three-letter code mostly begins with the two letters of its country's two-letter code. An unknown two-letter code
  // gives no such hint.
  const near = code.length === 3 ? nearest(code, known.keys()).filter(isCountry) : []
  return near.sort((one, other) => Number(code.startsWith(other)) - Number(code.startsWith(one)))
}

type Schema = {
  type?: string | string[]
  const?: unknown
  properties?: object
  required?: string[]
  anyOf?: Schema[]
}

/** The branches of a union: the words to choose from, or each shape with the names of its members. */
export function unionWords(branches: readonly Schema[]): string {
  if (branches.every((branch) => branch.const !== undefined)) {
    return `one of ${branches.map((branch) => String(branch.const)).join(', ')}`
  }
  return branches
    .map((branch) =>
      branch.properties
        ? `{${(branch.required ?? Object.keys(branch.properties)).join(', ')}}`
        : typeWords(branch),
    )
    .join(' or ')
}

function typeWords({ type, anyOf }: Schema = {}): string {
  if (anyOf) return unionWords(anyOf)
  return [type]
    .flat()
    .map((one) => TYPES[one ?? ''] ?? 'another value')
    .join(' or ')
}

type Say = (error: ErrorObject) => string

/** What the value of a field has to be, by the rule that it breaks. */
const VALUES: Readonly<Record<string, Say>> = {
  pattern: ({ schema }) => PATTERNS[String(schema)] ?? 'in the form that this field has',
  type: ({ params }) => typeWords({ type: params.type }),
  format: ({ params }) => FORMATS[String(params.format)] ?? `a ${params.format}`,
  const: ({ params }) => JSON.stringify(params.allowedValue),
  minimum: ({ params }) => `at least ${params.limit}`,
  maximum: ({ params }) => `at most ${params.limit}`,
}

const valueWords: Say = (error) => VALUES[error.keyword]?.(error) ?? error.message ?? 'another value'

const atLeast =
  (noun: string, notEmpty: string): Say =>
  ({ params: { limit } }) =>
    limit === 1 ? notEmpty : `must have at least ${howMany(limit, noun)}`

const atMost =
  (noun: string): Say =>
  ({ params: { limit } }) =>
    `must have at most ${howMany(limit, noun)}`

const fill = (_: ErrorObject, place: string) => `Fill ${place}, or leave it out where it is optional.`

/** `must` follows the name of the field; `send` says what to send instead, empty where it knows nothing better than the value. */
type Rule = { must?: Say; send?(error: ErrorObject, place: string): string }

/** The rules that are not, or not only, about a value. */
const RULES: Readonly<Record<string, Rule>> = {
  required: {
    must: () => 'is required',
    send({ parentSchema, params }, place) {
      const members = (parentSchema as Schema | undefined)?.properties as Record<string, Schema> | undefined
      return `Send ${place}: ${typeWords(members?.[String(params.missingProperty)])}.`
    },
  },
  additionalProperties: {
    must: () => 'is not known here',
    send({ parentSchema, params }, place) {
      const known = Object.keys((parentSchema as Schema | undefined)?.properties ?? {})
      return meant(params.additionalProperty, known) || `Leave ${place} out; ${known.join(', ')} are known.`
    },
  },
  not: { must: () => 'must not be sent here', send: (_, place) => `Leave ${place} out.` },
  enum: {
    must: ({ message }) => message ?? 'is not valid',
    send({ params, schema, data }) {
      const given = Array.isArray(params.allowedValues) ? params.allowedValues : [schema].flat()
      const allowed = given.map(String)
      return meant(data, allowed) || `Send one of ${allowed.join(', ')}.`
    },
  },
  oneOf: {
    must: ({ message }) => message ?? 'is not valid',
    send: ({ message }, place) => `Send ${place} as ${String(message).replace('must be one of: ', '')}.`,
  },
  pattern: {
    send: ({ schema, data }) => (schema === COUNTRY ? didYouMean(countriesMeant(String(data))) : ''),
  },
  minLength: { must: atLeast('character', 'must not be empty'), send: fill },
  minItems: { must: atLeast('entry', 'must not be an empty list'), send: fill },
  maxLength: { must: atMost('character'), send: (_, place) => `Shorten ${place}.` },
  maxItems: {
    must: atMost('entry'),
    send: () => 'Send fewer entries, in several requests where that is possible.',
  },
  uniqueItems: {
    must: () => 'must not name anything twice',
    send: (_, place) => `Name each entry of ${place} once.`,
  },
}

/** The rule as it follows the name of the field: `must be ...`. */
export function issueMessage(error: ErrorObject): string {
  return RULES[error.keyword]?.must?.(error) ?? `must be ${valueWords(error)}`
}

/** What to send instead. `field` as errors name it. */
export function issueSuggestion(error: ErrorObject, field: string): string {
  const place = field === '' ? 'the request' : field
  return RULES[error.keyword]?.send?.(error, place) || `Send ${place} as ${valueWords(error)}.`
}
