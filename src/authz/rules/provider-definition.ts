/**
 * What a provider says a signal is, field by field (schema core/signal-definition). A field that does not conform is left out
 * and reported; the others are kept (docs/protocol.md#provider-files). Nothing is repaired or added. What bounds the use of a
 * signal counts as far as it conforms, and a restriction may be any word: to drop what cannot be read, or is newer than this list,
 * would widen the use (docs/decisions.md#trust).
 */
import { type Check, check, type Static, Type, wordOf } from '../../adcp/schema.js'
import { VALUE_TYPES } from '../../adcp/signal.js'
import type { PublishedSignal, Rules } from './rules.js'
import type { Diagnostic } from './tables.js'

const OFFLINE = new Set([
  'offline_survey',
  'public_record_census',
  'public_record_voter_file',
  'public_record_other',
  'offline_transaction',
])
const CORE_RIGHTS = new Set(['access', 'erasure', 'objection'])
// Assigning these names to a plain object would change its prototype.
const HOSTILE = new Set(['__proto__', 'constructor', 'prototype'])

const words = (...values: string[]) => Type.Unsafe<string>({ type: 'string', enum: values })
const MOST_WORDS = 1_000
const some = <T extends ReturnType<typeof Type.Unsafe<string>>>(item: T) =>
  Type.Array(item, { minItems: 1, maxItems: MOST_WORDS })
const optional = Type.Optional
const Short = Type.Unsafe<string>({ type: 'string', minLength: 1, maxLength: 512 })
const Uri = Type.Unsafe<string>({ type: 'string', format: 'uri', maxLength: 2_048 })
const Https = Type.Unsafe<string>({ type: 'string', format: 'uri', pattern: '^https://', maxLength: 2_048 })
const Country = Type.Unsafe<string>({ type: 'string', pattern: '^[A-Z]{2}$' })
const Cadence = words(
  'intra_day',
  'daily',
  'weekly',
  'monthly',
  'bi_monthly',
  'quarterly',
  'bi_annually',
  'annually',
)

/** Of a taxonomy only an id may not be empty. */
const Word = Type.Unsafe<string>({ type: 'string', maxLength: 512 })
const taxonomyValue = { path: optional(Word), modifiers: optional(Type.Array(Word)) }
const Taxonomy = Type.Object({
  ref: Uri,
  version: optional(Word),
  segtax: optional(Type.Integer({ minimum: 1 })),
  etag: optional(Word),
  values: Type.Array(Type.Object({ id: Short, ...taxonomyValue }), { minItems: 1, maxItems: 1_000 }),
  value_mappings: optional(
    Type.Array(Type.Object({ value: Word, taxonomy_value_id: Word, ...taxonomyValue }), { minItems: 1 }),
  ),
  parent_match_behavior: optional(words('exact_only', 'descendants_supported', 'unknown')),
})

const Onboarder = Type.Object({
  match_keys: some(
    words(
      'name',
      'address',
      'email',
      'postal',
      'lat_long',
      'mobile_id',
      'cookie_id',
      'ip',
      'customer_id',
      'phone',
    ),
  ),
  pre_onboarding_audience_expansion: optional(Type.Boolean()),
  pre_onboarding_device_expansion: optional(Type.Boolean()),
  pre_onboarding_precision_level: optional(words('individual', 'household', 'business', 'geography')),
})

const Modeling = Type.Object({
  method: words('lookalike', 'supervised', 'embedding', 'rules'),
  seed_source: Type.Object({
    type: words('first_party_crm', 'panel', 'declared_survey', 'transactional', 'behavioral'),
    provider_signed: Type.Boolean(),
  }),
  training_data_jurisdictions: some(Country),
  ai_act_risk_class: words('minimal', 'limited', 'high_risk'),
  disclosure: optional(Type.Object({ required: Type.Boolean() })),
})

const DataSubjectRights = Type.Object({
  upstream_source_domain: optional(Short),
  channels: Type.Array(
    Type.Object({
      rights: some(words('access', 'rectification', 'erasure', 'portability', 'objection')),
      url: optional(Https),
      email: optional(Type.Unsafe<string>({ type: 'string', format: 'email', maxLength: 320 })),
      languages: optional(Type.Array(Short)),
      countries: optional(Type.Array(Country)),
    }),
    { minItems: 1, maxItems: 100 },
  ),
  response_sla_days: optional(Type.Integer({ minimum: 1, maximum: 90 })),
  ccpa_opt_out_url: optional(Https),
})

/**
 * Whole years, both ends included, one of them at least. Whether people of unknown age are included is always stated (schema
 * core/demographic-age-range).
 */
const Age = Type.Object(
  {
    min: optional(Type.Integer({ minimum: 0, maximum: 150 })),
    max: optional(Type.Integer({ minimum: 0, maximum: 150 })),
    include_unknown: Type.Boolean(),
  },
  { anyOf: [{ required: ['min'] }, { required: ['max'] }] },
)

/** What each field must look like to be passed on, by its name in the file; `allowed_values` becomes a row's `categories`. */
export const definitionSchemas = {
  name: Type.String({ minLength: 1, maxLength: 255 }),
  description: Type.String({ maxLength: 2_000 }),
  value_type: wordOf(VALUE_TYPES),
  allowed_values: some(Short),
  range: Type.Object({ min: Type.Number(), max: Type.Number(), unit: optional(Short) }),
  restricted_attributes: some(Short),
  demographic_predicate: Type.Object({ age: Age }),
  policy_categories: some(Short),
  taxonomy: Taxonomy,
  segmentation_criteria: Type.String({ maxLength: 500 }),
  criteria_url: Uri,
  data_sources: some(
    words(
      'app_behavior',
      'app_usage',
      'web_usage',
      'geo_location',
      'email',
      'tv_ott_or_stb_device',
      'panel',
      'online_ecommerce',
      'credit_data',
      'loyalty_card',
      'transaction',
      'online_survey',
      'offline_survey',
      'public_record_census',
      'public_record_voter_file',
      'public_record_other',
      'offline_transaction',
    ),
  ),
  methodology: words('observed', 'declared', 'derived', 'inferred', 'modeled'),
  methodology_url: Uri,
  audience_expansion: Type.Boolean(),
  device_expansion: Type.Boolean(),
  refresh_cadence: Cadence,
  lookback_window: Cadence,
  onboarder: Onboarder,
  countries: some(Country),
  consent_basis: some(words('consent', 'legitimate_interest', 'contract', 'legal_obligation')),
  art9_basis: words(
    'explicit_consent',
    'manifestly_made_public',
    'substantial_public_interest',
    'vital_interests',
  ),
  modeling: Modeling,
  data_subject_rights: DataSubjectRights,
  last_updated: Type.Unsafe<string>({ type: 'string', format: 'date-time' }),
  dts_compliant_version: Short,
}

type Fields = { [Field in keyof typeof definitionSchemas]?: Static<(typeof definitionSchemas)[Field]> }

/** What a provider says about one signal, under the field names of a row. */
export type SignalDefinition = Omit<Fields, 'allowed_values'> & {
  id: string
  tags: readonly string[]
  /** From `allowed_values`. */
  categories?: string[]
}

type Guard = (
  definition: SignalDefinition,
  row: Readonly<Record<string, unknown>>,
) => { field: string; message: string } | undefined

const guards: readonly Guard[] = [
  ({ methodology, modeling }) =>
    methodology === 'modeled' && !modeling
      ? { field: 'modeling', message: 'methodology is modeled, and modeling is missing' }
      : undefined,
  ({ audience_expansion, modeling }) =>
    audience_expansion && !modeling
      ? { field: 'modeling', message: 'audience_expansion is true, and modeling is missing' }
      : undefined,
  ({ data_sources, onboarder }) =>
    data_sources?.some((source) => OFFLINE.has(source)) && !onboarder
      ? { field: 'onboarder', message: 'an offline or public-record source needs onboarder' }
      : undefined,
  ({ data_subject_rights: rights }) =>
    rights && !rights.channels.some((channel) => channel.rights.some((right) => CORE_RIGHTS.has(right)))
      ? { field: 'data_subject_rights', message: 'no channel supports access, erasure or objection' }
      : undefined,
  ({ data_subject_rights: rights }) =>
    rights?.channels.some(({ url, email }) => url === undefined && email === undefined)
      ? { field: 'data_subject_rights', message: 'a channel has neither url nor email' }
      : undefined,
  ({ value_type, taxonomy }) =>
    value_type === 'categorical' && taxonomy && !taxonomy.value_mappings
      ? { field: 'taxonomy', message: 'a categorical signal with a taxonomy needs value_mappings' }
      : undefined,
  ({ categories, taxonomy }) =>
    categories && taxonomy?.value_mappings?.some(({ value }) => !categories.includes(value))
      ? { field: 'taxonomy', message: 'value_mappings names a value that allowed_values has not' }
      : undefined,
  (_, row) =>
    row.audience_scope === 'single_domain' && row.originating_domain === undefined
      ? { field: 'originating_domain', message: 'audience_scope is single_domain without it' }
      : undefined,
  ({ name }) => (name === undefined ? { field: 'name', message: 'the name is missing' } : undefined),
  ({ value_type }) =>
    value_type === undefined ? { field: 'value_type', message: 'the value_type is missing' } : undefined,
]

/**
 * What looks wrong in a definition as a whole: its conditional rules, as runtime guards (schema core/signal-definition: "SDK
 * generators that drop those keywords need equivalent runtime guards"). They report and never repair.
 */
function guard(definition: SignalDefinition, row: Readonly<Record<string, unknown>>) {
  return guards.flatMap((warningOf) => warningOf(definition, row) ?? [])
}

const checks: ReadonlyMap<string, Check<unknown>> = new Map(
  Object.entries(definitionSchemas).map(([field, schema]) => [field, check(schema)]),
)

function hostile(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return value.some(hostile)
  return Object.entries(value).some(([name, member]) => HOSTILE.has(name) || hostile(member))
}

type Bounds = { min?: number; max?: number }

const isEmptyBetween = ({ min = 0, max = Number.POSITIVE_INFINITY }: Bounds) => min > max

/** Of ages that conform: implementations must reject those between which nobody is, and no schema can compare them. */
export const isNoAge = ({ age }: { age: Bounds }) => isEmptyBetween(age)

function mayStand(field: string, value: unknown, { conforms }: Check<unknown>): boolean {
  if (!conforms(value) || hostile(value)) return false
  if (field === 'demographic_predicate') return !isNoAge(value as { age: Bounds })
  return field !== 'range' || !isEmptyBetween(value as Required<Bounds>)
}

/** The lists that bound the use of a signal, each by what one of its words must be. */
const bounding: ReadonlyMap<string, Check<unknown>> = new Map([
  ['countries', check(Country)],
  ['restricted_attributes', check(Short)],
  ['policy_categories', check(Short)],
])

/**
 * What is certain of a bound that does not conform. Countries are an upper bound (schema core/signal-definition): where none
 * can be read, there is none. An empty list says nothing, as in the rows of agents.
 */
function certainly(field: string, value: unknown): unknown[] | undefined {
  const word = bounding.get(field)
  if (!word || value === null || (Array.isArray(value) && value.length === 0)) return undefined
  const words = Array.isArray(value) ? value.filter(word.conforms).slice(0, MOST_WORDS) : []
  return words.length > 0 || field === 'countries' ? words : undefined
}

/** The definition, and the fields of the file that do not conform: they were left out, bounds as far as they cannot be read. */
function readDefinition({ id, tags, row }: PublishedSignal): {
  definition: SignalDefinition
  left: string[]
} {
  const fields: Record<string, unknown> = {}
  const left: string[] = []
  for (const [field, value] of Object.entries(row)) {
    const check = checks.get(field)
    if (!check) continue
    if (mayStand(field, value, check)) fields[field === 'allowed_values' ? 'categories' : field] = value
    else {
      left.push(field)
      const bound = certainly(field, value)
      if (bound) fields[field] = bound
    }
  }
  return { definition: { ...fields, id, tags }, left }
}

/** The provider's definition of the signal; undefined when it publishes none under that id. */
export function definitionOf(rules: Rules, signalId: string): SignalDefinition | undefined {
  const signal = rules.signalNumber(signalId)
  return signal < 0 ? undefined : readDefinition(rules.signal(signal)).definition
}

/** Which fields of a definition were left out, and which look wrong (the specification's conditional rules). */
export function diagnoseDefinition(signal: PublishedSignal): Diagnostic[] {
  const at = (field: string) => `/signals/${signal.index}/${field}`
  const { definition, left } = readDefinition(signal)
  const skipped = left.map(
    (field): Diagnostic => ({
      ...{ at: at(field), effect: 'skipped' },
      message: bounding.has(field)
        ? 'does not conform to the schema: what bounds the signal counts as far as it does'
        : 'does not conform to the schema',
    }),
  )
  // The content of a field that was left out is unknown, so only the others can be checked for what looks wrong.
  const odd = guard(definition, signal.row).filter(({ field }) => !left.includes(field))
  return [
    ...skipped,
    ...odd.map(({ field, message }): Diagnostic => ({ at: at(field), effect: 'noted', message })),
  ]
}
