/**
 * What a signal is: the provider's published definition first, then its offers (DESIGN 5.3, 5.4).
 * Three fields are not "first wins": legal bases are the provider's words or absent, restrictions are never lost, and
 * countries only narrow.
 */
import type { SignalRow } from '../adcp/signal.js'
import type { Offer } from './offer.js'
import { conforms, type PublishedField, published } from './published.js'

/** A provider's own words about one signal, from its adagents.json. */
export type Definition = Partial<Pick<SignalRow, PublishedField | 'name' | 'description'>>

/** Contributing offers say something else than what is published. */
export type Conflict = { field: string; upstreams: string[] }

type Source = Pick<Offer, 'listing' | 'upstream' | 'verdict'>
type Field = PublishedField | 'name' | 'description' | 'signal_type' | 'data_provider'

const UNIONS: readonly PublishedField[] = ['restricted_attributes', 'policy_categories']
const LEGAL_BASES: readonly PublishedField[] = ['consent_basis', 'art9_basis']
const FREE: ReadonlySet<string> = new Set(['name', 'description', 'signal_type', 'data_provider'])
const special = new Set<string>([...UNIONS, ...LEGAL_BASES, 'countries'])

/** Words first, so that a row reads from what it is to the fine print. */
const FIRST_WINS: readonly Field[] = [
  'name',
  'description',
  'signal_type',
  'data_provider',
  ...(Object.keys(published) as PublishedField[]).filter((field) => !special.has(field)),
]

/** The value as it may be published: undefined when it is not given or does not conform. */
function stated(from: Partial<SignalRow> | undefined, field: Field): unknown {
  const value = from?.[field]
  if (value === undefined) return undefined
  return FREE.has(field) || conforms(field as PublishedField, value) ? value : undefined
}

function same(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object') return false
  return canonical(a) === canonical(b)
}

/** Equal for equal values whatever the order of members; lists of words compare as sets. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).sort().join()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).map(([name, member]) => `${name}:${canonical(member)}`)
  return `{${members.sort().join()}}`
}

function differing(offers: readonly Source[], field: Field, value: unknown): string[] {
  return offers
    .filter(({ listing }) => {
      const other = stated(listing, field)
      return other !== undefined && !same(other, value)
    })
    .map(({ upstream }) => upstream)
}

/**
 * From the definition when the provider published one, even when it is silent; else what every authorized offer that
 * states it agrees on; else absent (specification, `fields`: federating agents MUST NOT substitute their own basis).
 */
function legalBasis(field: PublishedField, offers: readonly Source[], definition: Definition | undefined) {
  if (definition) return { value: stated(definition, field), upstreams: [] }
  const entitled = offers.filter(
    ({ verdict: { outcome } }) => outcome === 'authorized' || outcome === 'not_applicable',
  )
  const speaking = entitled.filter(({ listing }) => stated(listing, field) !== undefined)
  const value = stated(speaking[0]?.listing, field)
  const disagree = differing(speaking, field, value).length > 0
  return disagree
    ? { value: undefined, upstreams: speaking.map(({ upstream }) => upstream) }
    : { value, upstreams: [] }
}

function union(field: PublishedField, sources: readonly (Partial<SignalRow> | undefined)[]) {
  const stating = sources.map((source) => stated(source, field)).filter((words) => words !== undefined)
  return stating.length > 0 ? [...new Set((stating as string[][]).flat())].sort() : undefined
}

/** Where one offer may be used: the narrowest of provider, authorization and listing. Undefined: no bound is known. */
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

/** The descriptive members of a row in published order, and where the contributing offers say otherwise. */
export function mergeDefinition(
  offers: readonly Source[],
  definition: Definition | undefined,
): { fields: Record<string, unknown>; conflicts: Conflict[] } {
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
  for (const field of LEGAL_BASES) {
    const { value, upstreams } = legalBasis(field, offers, definition)
    if (value !== undefined) fields[field] = value
    if (upstreams.length > 0) conflicts.push({ field, upstreams })
  }
  for (const field of UNIONS) {
    const value = union(field, [definition, ...offers.map(({ listing }) => listing)])
    if (value) fields[field] = value
  }
  return { fields, conflicts }
}
