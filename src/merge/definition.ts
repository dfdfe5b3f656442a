/**
 * What a signal is: the provider's published definition first, then its offers (docs/decisions.md#trust, #merging).
 * Three fields are not "first wins": legal bases are stated by the provider or absent, restrictions are never dropped,
 * and countries only become fewer.
 */
import type { SignalRow } from '../adcp/signal.js'
import type { Offer } from './offer.js'
import { conforms, type PublishedField, published, restrictedWords } from './published.js'

/** A provider's own words about one signal, from its adagents.json. */
export type Definition = Partial<Pick<SignalRow, PublishedField | 'name' | 'description'>>

/** Fields in which contributing offers differ from what is published. */
export type Conflict = { field: string; upstreams: string[] }

type Source = Pick<Offer, 'listing' | 'upstream' | 'verdict'>
export type Field = PublishedField | 'name' | 'description' | 'signal_type' | 'data_provider'

/** Stated by the provider or absent: nobody else's statement replaces it. */
const OWN_WORDS: readonly PublishedField[] = ['consent_basis', 'art9_basis', 'demographic_predicate']
const FREE: ReadonlySet<string> = new Set(['name', 'description', 'signal_type', 'data_provider'])
const special = new Set<string>(['restricted_attributes', 'policy_categories', 'countries', ...OWN_WORDS])

/** The order of fields in a row: what the signal is first, the fine print last. */
export const FIRST_WINS: readonly Field[] = [
  'name',
  'description',
  'signal_type',
  'data_provider',
  ...(Object.keys(published) as PublishedField[]).filter((field) => !special.has(field)),
]

/** A provider may name the unit of a range; a response has no field for it. */
const bounds = (range: SignalRow['range']) => range && { min: range.min, max: range.max }

/** The value as it may be published; undefined when it is absent or does not conform. */
export function stated(from: Partial<SignalRow> | undefined, field: Field): unknown {
  const given = from?.[field]
  if (given === undefined) return undefined
  const value = field === 'range' ? bounds(given as SignalRow['range']) : given
  return FREE.has(field) || conforms(field as PublishedField, value) ? value : undefined
}

function same(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object') return false
  return canonical(a) === canonical(b)
}

/** Equal for equal values: the order of members does not matter, and lists of words are compared as sets. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).sort().join()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).map(([name, member]) => `${name}:${canonical(member)}`)
  return `{${members.sort().join()}}`
}

/** Each value once, because one upstream may sell a signal as several segments. */
const upstreamsOf = (offers: readonly Source[]) => [...new Set(offers.map(({ upstream }) => upstream))]

function differing(offers: readonly Source[], field: Field, value: unknown): string[] {
  const others = offers.filter(({ listing }) => {
    const other = stated(listing, field)
    return other !== undefined && !same(other, value)
  })
  return upstreamsOf(others)
}

/**
 * Which legal basis is published. With a provider's definition: the definition's value, also when it states none;
 * offers that state another value are named as conflicts. Without a definition (the source's own signal, or a provider
 * that cannot be asked): the value that all rows agree on, unless the provider denies the seller; otherwise none, and
 * everyone who states one is named (docs/decisions.md#trust; specification, `fields`: federating agents MUST NOT
 * substitute their own basis).
 */
function ownWord(field: PublishedField, offers: readonly Source[], definition: Definition | undefined) {
  const own = stated(definition, field)
  if (definition) return { value: own, upstreams: differing(offers, field, own) }
  const speaking = offers.filter(({ listing }) => stated(listing, field) !== undefined)
  const value = stated(speaking[0]?.listing, field)
  const isDenied = speaking.some(({ verdict }) => verdict.outcome === 'unauthorized')
  return isDenied || differing(speaking, field, value).length > 0
    ? { value: undefined, upstreams: upstreamsOf(speaking) }
    : { value, upstreams: [] }
}

function union(field: PublishedField, sources: readonly (Partial<SignalRow> | undefined)[]) {
  const stating = sources.map((source) => stated(source, field)).filter((words) => words !== undefined)
  return stating.length > 0 ? [...new Set((stating as string[][]).flat())].sort() : undefined
}

/**
 * The countries of one offer: the intersection of provider, authorization and listing. Undefined when none of them
 * names countries.
 */
export function countriesOf({ listing, verdict }: Source, definition: Definition | undefined) {
  const granted = verdict.outcome === 'authorized' ? verdict.countries : undefined
  let bound: string[] | undefined
  for (const countries of [stated(definition, 'countries'), granted, stated(listing, 'countries')]) {
    if (!countries) continue
    const allowed = countries as readonly string[]
    bound = bound ? bound.filter((country) => allowed.includes(country)) : [...new Set(allowed)].sort()
  }
  return bound
}

/**
 * The descriptive members of a row in published order; the restrictions that the response schema does not know yet,
 * which must still not be lost; and the fields in which contributing offers differ. `offers` describe the signal. All
 * `admitted` offers restrict it, also those that may be used in no country.
 */
export function mergeDefinition(
  offers: readonly Source[],
  admitted: readonly Source[],
  definition: Definition | undefined,
): { fields: Record<string, unknown>; restrictions: string[]; conflicts: Conflict[] } {
  const fields: Record<string, unknown> = {}
  const conflicts: Conflict[] = []
  const alone = offers.length === 1 && !definition
  for (const field of FIRST_WINS) {
    let value = stated(definition, field)
    for (let at = 0; value === undefined && at < offers.length; at += 1) {
      value = stated(offers[at]?.listing, field)
    }
    if (value === undefined) continue
    fields[field] = value
    if (alone) continue
    const upstreams = differing(offers, field, value)
    if (upstreams.length > 0) conflicts.push({ field, upstreams })
  }
  for (const field of OWN_WORDS) {
    const { value, upstreams } = ownWord(field, offers, definition)
    if (value !== undefined) fields[field] = value
    if (upstreams.length > 0) conflicts.push({ field, upstreams })
  }
  const sources = [definition, ...admitted.map(({ listing }) => listing)]
  const restricted = union('restricted_attributes', sources) ?? []
  const known = restricted.filter((word) => restrictedWords.has(word))
  if (known.length > 0) fields.restricted_attributes = known
  // A predicate about age is valid only together with its restriction (schema core/signal-listing).
  if (!known.includes('age')) delete fields.demographic_predicate
  const categories = union('policy_categories', sources)
  if (categories) fields.policy_categories = categories
  return { fields, restrictions: restricted.filter((word) => !restrictedWords.has(word)), conflicts }
}
