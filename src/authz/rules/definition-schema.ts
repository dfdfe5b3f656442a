/**
 * What each field of a published definition must look like to be passed on (schema core/signal-definition; its draft-07
 * conditionals are in definition.ts). A restriction may be any word: dropping one that is newer than this list would widen
 * the use of a signal (docs/decisions.md#trust).
 */
import { type Static, Type } from '../../adcp/type.js'

const words = (...values: string[]) => Type.Unsafe<string>({ type: 'string', enum: values })
const some = <T extends ReturnType<typeof Type.Unsafe<string>>>(item: T) =>
  Type.Array(item, { minItems: 1, maxItems: 1_000 })
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

const taxonomyValue = { path: optional(Short), modifiers: optional(Type.Array(Short)) }
const Taxonomy = Type.Object({
  ref: Uri,
  version: optional(Short),
  segtax: optional(Type.Integer({ minimum: 1 })),
  etag: optional(Short),
  values: Type.Array(Type.Object({ id: Short, ...taxonomyValue }), { minItems: 1, maxItems: 1_000 }),
  value_mappings: optional(
    Type.Array(Type.Object({ value: Short, taxonomy_value_id: Short, ...taxonomyValue }), { minItems: 1 }),
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
 * Whole years, both ends included. Whether people of unknown age are included is always stated (schema
 * core/demographic-age-range).
 */
const Age = Type.Object({
  min: optional(Type.Integer({ minimum: 0, maximum: 150 })),
  max: optional(Type.Integer({ minimum: 0, maximum: 150 })),
  include_unknown: Type.Boolean(),
})

/** By the field's name in the file; `allowed_values` becomes a row's `categories`. */
export const definitionSchemas = {
  name: Type.String({ minLength: 1, maxLength: 255 }),
  description: Type.String({ maxLength: 2_000 }),
  value_type: Type.Union([Type.Literal('binary'), Type.Literal('categorical'), Type.Literal('numeric')]),
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
