/**
 * What a signal is: which of its fields may be published, and whose value. A field must have the closed shape of the response
 * schema (schema core/signal-definition-enrichment): listings may be looser than our answers, so
 * what does not conform is left out and never repaired. The provider's published definition is asked first, then the offers
 * (docs/decisions.md#trust, #merging). Three fields are not "first wins": legal bases are stated by the provider or absent,
 * restrictions are never dropped, and countries only become fewer.
 */
import { type Check, check, type TObject, type TProperties, type TSchema, Type } from '../adcp/schema.js'
import type { SignalRow } from '../adcp/signal.js'
import { definitionSchemas as defined, isNoAge } from '../authz/rules/provider-definition.js'
import type { Offer } from './offer.js'

const closed = { additionalProperties: false }
const words = (...values: string[]) => Type.Union(values.map((value) => Type.Literal(value)))
const some = (item: TSchema) => Type.Array(item, { minItems: 1 })
const Uri = Type.String({ format: 'uri' })
const Https = Type.String({ format: 'uri', pattern: '^https://' })
const Country = Type.String({ pattern: '^[A-Z]{2}$' })
const Moment = Type.String({ format: 'date-time' })
const Optional = Type.Optional

/** The same schema, closed to members that the response schema does not name. */
function tight<T extends TSchema>(schema: T): T {
  if (schema.type === 'array') return { ...schema, items: tight(schema.items as TSchema) }
  if (schema.type !== 'object') return schema
  const properties = Object.entries((schema as unknown as TObject<TProperties>).properties)
  return {
    ...schema,
    ...closed,
    properties: Object.fromEntries(properties.map(([name, of]) => [name, tight(of)])),
  }
}

const Jurisdiction = Type.Object(
  {
    country: Country,
    region: Optional(Type.String()),
    regulation: Type.String(),
    disclosure_text: Optional(Type.String()),
    disclosure_url: Optional(Uri),
    audience: Optional(words('buyer', 'data_subject', 'regulator', 'public')),
  },
  closed,
)
const disclosed = { jurisdictions: some(Jurisdiction), notes: Optional(Type.String({ maxLength: 2_000 })) }
const Disclosure = Type.Union([
  Type.Object({ required: Type.Literal(true), ...disclosed }, closed),
  Type.Object(
    { required: Type.Literal(false), ...disclosed, jurisdictions: Optional(disclosed.jurisdictions) },
    closed,
  ),
])

const Modeling = Type.Object(
  { ...tight(defined.modeling).properties, disclosure: Optional(Disclosure) },
  closed,
)

const rightsChannel = {
  rights: Type.Array(words('access', 'rectification', 'erasure', 'portability', 'objection'), {
    minItems: 1,
    uniqueItems: true,
  }),
  url: Optional(Https),
  email: Optional(Type.String({ format: 'email' })),
  languages: Optional(Type.Array(Type.String())),
  countries: Optional(Type.Array(Country)),
}
const DataSubjectRights = Type.Object(
  {
    upstream_source_domain: Optional(Type.String({ format: 'hostname', maxLength: 253 })),
    channels: Type.Array(
      Type.Union([
        Type.Object({ ...rightsChannel, url: Https }, closed),
        Type.Object({ ...rightsChannel, email: Type.String({ format: 'email' }) }, closed),
      ]),
      {
        minItems: 1,
        contains: Type.Object({
          rights: Type.Array(Type.String(), { contains: words('access', 'erasure', 'objection') }),
        }),
      },
    ),
    response_sla_days: Optional(Type.Integer({ minimum: 1, maximum: 90 })),
    ccpa_opt_out_url: Optional(Https),
  },
  closed,
)

const RESTRICTED = [
  'racial_ethnic_origin',
  'political_opinions',
  'religious_beliefs',
  'trade_union_membership',
  'health_data',
  'sex_life_sexual_orientation',
  'genetic_data',
  'biometric_data',
  'age',
  'familial_status',
]
/** The restrictions that the response schema allows. Others are kept as well, elsewhere in the row (`mergeDefinition`). */
const restrictedWords: ReadonlySet<string> = new Set(RESTRICTED)

/** The fields in published order. */
export const published = {
  value_type: defined.value_type,
  categories: some(Type.String()),
  range: Type.Object({ min: Type.Number(), max: Type.Number() }, closed),
  taxonomy: tight(defined.taxonomy),
  data_sources: defined.data_sources,
  methodology: defined.methodology,
  methodology_url: Uri,
  segmentation_criteria: defined.segmentation_criteria,
  criteria_url: Uri,
  refresh_cadence: defined.refresh_cadence,
  lookback_window: defined.lookback_window,
  onboarder: tight(defined.onboarder),
  modeling: Modeling,
  audience_expansion: defined.audience_expansion,
  device_expansion: defined.device_expansion,
  countries: some(Country),
  consent_basis: defined.consent_basis,
  art9_basis: defined.art9_basis,
  restricted_attributes: defined.restricted_attributes,
  policy_categories: defined.policy_categories,
  demographic_predicate: tight(defined.demographic_predicate),
  data_subject_rights: DataSubjectRights,
  last_updated: Moment,
  dts_compliant_version: Type.String(),
} as const satisfies Record<string, TSchema>

type PublishedField = keyof typeof published

const checks = Object.fromEntries(
  Object.entries(published).map(([field, schema]) => [field, check(schema)]),
) as Record<PublishedField, Check<unknown>>

/** Whether `value` may be published as `field`. */
function conforms(field: PublishedField, value: unknown): boolean {
  if (!checks[field].conforms(value)) return false
  return field !== 'demographic_predicate' || !isNoAge(value as Parameters<typeof isNoAge>[0])
}

/** A provider's own words about one signal, from its adagents.json. */
export type Definition = Partial<Pick<SignalRow, PublishedField | 'name' | 'description'>>

/** Fields in which contributing offers differ from what is published. */
export type Conflict = { field: Field; upstreams: string[] }

type Source = Pick<Offer, 'listing' | 'upstream' | 'verdict'>
type Statement = Omit<Source, 'verdict'>
export type Field = PublishedField | 'name' | 'description' | 'signal_type' | 'data_provider'

/** Stated by the provider or absent: nobody else's statement replaces it. */
const OWN_WORDS: readonly PublishedField[] = ['consent_basis', 'art9_basis', 'demographic_predicate']
/** What values a signal has: said of one type of value, and no word about another. */
const OF_VALUES: ReadonlySet<Field> = new Set<Field>(['categories', 'range'])
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
const upstreamsOf = (offers: readonly Statement[]) => [...new Set(offers.map(({ upstream }) => upstream))]

function differing(offers: readonly Statement[], field: Field, value: unknown): string[] {
  const others = offers.filter(({ listing }) => {
    const other = stated(listing, field)
    return other !== undefined && !same(other, value)
  })
  return upstreamsOf(others)
}

/** The conflicts of a row that are left with these of its offers; `fields`: what the row says. */
export function conflictsAmong(
  conflicts: readonly Conflict[],
  offers: readonly Statement[],
  fields: Readonly<Record<string, unknown>>,
): Conflict[] {
  return conflicts
    .map(({ field }) => ({ field, upstreams: differing(offers, field, fields[field]) }))
    .filter(({ upstreams }) => upstreams.length > 0)
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
 * names countries; a definition that names none that can be read allows none.
 */
export function countriesOf({ listing, verdict }: Source, definition: Definition | undefined) {
  const granted = verdict.outcome === 'authorized' ? verdict.countries : undefined
  let bound: string[] | undefined
  for (const countries of [definition?.countries, granted, stated(listing, 'countries')]) {
    if (!countries) continue
    const allowed = countries as readonly string[]
    bound = bound ? bound.filter((country) => allowed.includes(country)) : [...new Set(allowed)].sort()
  }
  return bound
}

/**
 * The descriptive members of a row in published order; the restrictions that the response schema does not know yet,
 * which must still not be lost; and the fields in which contributing offers differ. `offers` describe the signal. All
 * `restricting` offers restrict it, also those that may be used in no country. Of all `admitted` ones, also those that a row has no
 * room for, the few restrictions count that the response schema knows.
 */
export function mergeDefinition(
  offers: readonly Source[],
  restricting: readonly Source[],
  definition: Definition | undefined,
  admitted = restricting,
): { fields: Record<string, unknown>; restrictions: string[]; conflicts: Conflict[] } {
  const fields: Record<string, unknown> = {}
  const conflicts: Conflict[] = []
  const alone = offers.length === 1 && !definition
  function said(from: Partial<SignalRow> | undefined, field: Field): unknown {
    const value = stated(from, field)
    if (value === undefined || !OF_VALUES.has(field)) return value
    const type = stated(from, 'value_type') ?? fields.value_type
    return type === fields.value_type ? value : undefined
  }
  for (const field of FIRST_WINS) {
    let value = said(definition, field)
    for (let at = 0; value === undefined && at < offers.length; at += 1) {
      value = said(offers[at]?.listing, field)
    }
    if (value === undefined) continue
    fields[field] = value
    if (alone) continue
    const upstreams = differing(offers, field, value)
    if (upstreams.length > 0) conflicts.push({ field, upstreams })
  }
  const stating = (those: readonly Source[]) => [definition, ...those.map(({ listing }) => listing)]
  const sources = stating(restricting)
  const restricted = union('restricted_attributes', sources) ?? []
  // Nothing was left out where there are as many: then all of it was stated already.
  const ofAll =
    admitted.length === restricting.length
      ? restricted
      : (union('restricted_attributes', stating(admitted)) ?? [])
  const known = ofAll.filter((word) => restrictedWords.has(word))
  for (const field of OWN_WORDS) {
    // A predicate about age is valid only together with its restriction (schema core/signal-listing).
    if (field === 'demographic_predicate' && !known.includes('age')) continue
    const { value, upstreams } = ownWord(field, offers, definition)
    if (value !== undefined) fields[field] = value
    if (upstreams.length > 0) conflicts.push({ field, upstreams })
  }
  if (known.length > 0) fields.restricted_attributes = known
  const categories = union('policy_categories', sources)
  if (categories) fields.policy_categories = categories
  return { fields, restrictions: restricted.filter((word) => !restrictedWords.has(word)), conflicts }
}
