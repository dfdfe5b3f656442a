/**
 * Puts one violated rule of a request schema into words that a person knows: what was expected, and what to send
 * instead. The words never repeat a value of the request, because an untrusted string is never echoed. When the value
 * resembles a word of a closed set, the known word is named.
 */

import type { ErrorObject } from 'ajv'
import { howMany } from './answer.js'
import { countriesMeant, nearest } from './nearest.js'

type Schema = {
  type?: string | string[]
  const?: unknown
  properties?: object
  required?: string[]
  anyOf?: Schema[]
}

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

/** What the value of a field has to be; undefined where the rule is not about its value. */
function expected({ keyword, params, schema, message }: ErrorObject): string {
  if (keyword === 'pattern') return PATTERNS[String(schema)] ?? 'in the form that this field has'
  if (keyword === 'type') return typeWords({ type: params.type })
  if (keyword === 'format') return FORMATS[String(params.format)] ?? `a ${params.format}`
  if (keyword === 'const') return JSON.stringify(params.allowedValue)
  if (keyword === 'minimum') return `at least ${params.limit}`
  if (keyword === 'maximum') return `at most ${params.limit}`
  if (keyword === 'exclusiveMinimum') return `more than ${params.limit}`
  return message ?? 'another value'
}

/** The rule as it follows the name of the field: `must be ...`. */
export function issueMessage(error: ErrorObject): string {
  const { keyword, params, message } = error
  if (keyword === 'required') return 'is required'
  if (keyword === 'additionalProperties') return 'is not known here'
  if (keyword === 'minLength')
    return params.limit === 1
      ? 'must not be empty'
      : `must have at least ${howMany(params.limit, 'character')}`
  if (keyword === 'maxLength') return `must have at most ${howMany(params.limit, 'character')}`
  if (keyword === 'minItems')
    return params.limit === 1
      ? 'must not be an empty list'
      : `must have at least ${howMany(params.limit, 'entry')}`
  if (keyword === 'maxItems') return `must have at most ${howMany(params.limit, 'entry')}`
  if (keyword === 'uniqueItems') return 'must not name anything twice'
  if (keyword === 'enum' || keyword === 'oneOf') return message ?? 'is not valid'
  return `must be ${expected(error)}`
}

/** The question that suggests known words ("did you mean ..."); empty when no word is near. */
export function didYouMean(near: readonly string[]): string {
  return near.length > 0 ? `Did you mean ${near.map((word) => JSON.stringify(word)).join(' or ')}?` : ''
}

/** The words of the closed set that resemble a text in the request. */
function meant(value: unknown, words: readonly string[]): string {
  return didYouMean(typeof value === 'string' ? nearest(value, words) : [])
}

/** What to send instead. `field` as errors name it. */
export function issueSuggestion(error: ErrorObject, field: string): string {
  const { keyword, params, data, parentSchema, schema } = error
  const place = field === '' ? 'the request' : field
  if (keyword === 'required') {
    const members = (parentSchema as Schema | undefined)?.properties as Record<string, Schema> | undefined
    return `Send ${place}: ${typeWords(members?.[String(params.missingProperty)])}.`
  }
  if (keyword === 'additionalProperties') {
    const known = Object.keys((parentSchema as Schema | undefined)?.properties ?? {})
    const near = meant(params.additionalProperty, known)
    return near === '' ? `Leave ${place} out; ${known.join(', ')} are known.` : near
  }
  if (keyword === 'enum') {
    const allowed = (Array.isArray(params.allowedValues) ? params.allowedValues : [schema].flat()).map(String)
    return meant(data, allowed) || `Send one of ${allowed.join(', ')}.`
  }
  if (keyword === 'pattern' && schema === COUNTRY) {
    return didYouMean(countriesMeant(String(data))) || `Send ${place} as ${PATTERNS[COUNTRY]}.`
  }
  if (keyword === 'maxLength') return `Shorten ${place}.`
  if (keyword === 'maxItems') return `Send fewer entries, in several requests where that is possible.`
  if (keyword === 'uniqueItems') return `Name each entry of ${place} once.`
  if (keyword === 'minItems' || keyword === 'minLength')
    return `Fill ${place}, or leave it out where it is optional.`
  if (keyword === 'oneOf') return `Send ${place} as ${String(error.message).replace('must be one of: ', '')}.`
  return `Send ${place} as ${expected(error)}.`
}
