/**
 * What a field must look like to be published: the closed shapes of the response schema
 * (schemas core/signal-definition-enrichment, core/signal-coverage-forecast). Listings are read more generously than
 * we may answer; a field that does not conform is left out, never repaired.
 */
import { type TSchema, Type } from '@sinclair/typebox'
import { Ajv, type ValidateFunction } from 'ajv'
import formats from 'ajv-formats'
import { SignalRef } from '../adcp/reference.js'

const closed = { additionalProperties: false }
const words = (...values: string[]) => Type.Union(values.map((value) => Type.Literal(value)))
const some = (item: TSchema) => Type.Array(item, { minItems: 1 })
const Uri = Type.String({ format: 'uri' })
const Https = Type.String({ format: 'uri', pattern: '^https://' })
const Country = Type.String({ pattern: '^[A-Z]{2}$' })
const Moment = Type.String({ format: 'date-time' })
const Optional = Type.Optional
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

const Taxonomy = Type.Object(
  {
    ref: Uri,
    version: Optional(Type.String()),
    segtax: Optional(Type.Integer({ minimum: 1 })),
    etag: Optional(Type.String()),
    values: some(
      Type.Object(
        {
          id: Type.String({ minLength: 1 }),
          path: Optional(Type.String()),
          modifiers: Optional(Type.Array(Type.String())),
        },
        closed,
      ),
    ),
    value_mappings: Optional(
      some(
        Type.Object(
          {
            value: Type.String(),
            taxonomy_value_id: Type.String(),
            path: Optional(Type.String()),
            modifiers: Optional(Type.Array(Type.String())),
          },
          closed,
        ),
      ),
    ),
    parent_match_behavior: Optional(words('exact_only', 'descendants_supported', 'unknown')),
  },
  closed,
)

const Onboarder = Type.Object(
  {
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
    pre_onboarding_audience_expansion: Optional(Type.Boolean()),
    pre_onboarding_device_expansion: Optional(Type.Boolean()),
    pre_onboarding_precision_level: Optional(words('individual', 'household', 'business', 'geography')),
  },
  closed,
)

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
  {
    method: words('lookalike', 'supervised', 'embedding', 'rules'),
    seed_source: Type.Object(
      {
        type: words('first_party_crm', 'panel', 'declared_survey', 'transactional', 'behavioral'),
        provider_signed: Type.Boolean(),
      },
      closed,
    ),
    training_data_jurisdictions: some(Country),
    ai_act_risk_class: words('minimal', 'limited', 'high_risk'),
    disclosure: Optional(Disclosure),
  },
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

const Range = Type.Object({
  low: Optional(Type.Number({ minimum: 0 })),
  mid: Type.Number({ minimum: 0 }),
  high: Optional(Type.Number({ minimum: 0 })),
})
const Share = Type.Object({
  low: Optional(Type.Number({ minimum: 0, maximum: 1 })),
  mid: Type.Number({ minimum: 0, maximum: 1 }),
  high: Optional(Type.Number({ minimum: 0, maximum: 1 })),
})
const Dimension = Type.Union([
  Type.Object({
    kind: Type.Literal('signal'),
    signal_ref: Optional(SignalRef),
    presence: Type.Literal('absent'),
    signal_value: Type.Null(),
  }),
  Type.Object({
    kind: Type.Literal('signal'),
    signal_ref: Optional(SignalRef),
    presence: Type.Literal('present'),
    signal_value: Optional(Type.String()),
  }),
])
const Forecast = Type.Object({
  method: words('estimate', 'modeled', 'guaranteed'),
  forecast_range_unit: Type.Literal('availability'),
  scope: Type.Object({ kind: words('inventory', 'account', 'custom'), label: Type.String() }),
  points: some(
    Type.Object({
      label: Optional(Type.String({ maxLength: 128 })),
      dimensions: some(Dimension),
      metrics: Type.Object({ coverage_rate: Share, impressions: Optional(Range) }),
    }),
  ),
})

/** In the order in which they are published. */
export const published = {
  value_type: words('binary', 'categorical', 'numeric'),
  categories: some(Type.String()),
  range: Type.Object({ min: Type.Number(), max: Type.Number() }, closed),
  taxonomy: Taxonomy,
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
  segmentation_criteria: Type.String({ maxLength: 500 }),
  criteria_url: Uri,
  refresh_cadence: Cadence,
  lookback_window: Cadence,
  onboarder: Onboarder,
  modeling: Modeling,
  audience_expansion: Type.Boolean(),
  device_expansion: Type.Boolean(),
  countries: some(Country),
  consent_basis: some(words('consent', 'legitimate_interest', 'contract', 'legal_obligation')),
  art9_basis: words(
    'explicit_consent',
    'manifestly_made_public',
    'substantial_public_interest',
    'vital_interests',
  ),
  restricted_attributes: some(
    words(
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
    ),
  ),
  policy_categories: some(Type.String()),
  data_subject_rights: DataSubjectRights,
  last_updated: Moment,
  dts_compliant_version: Type.String(),
} as const satisfies Record<string, TSchema>

export type PublishedField = keyof typeof published

const ajv = new Ajv({ strict: false })
formats.default(ajv)
const checks = Object.fromEntries(
  Object.entries(published).map(([field, schema]) => [field, ajv.compile(schema)]),
) as Record<PublishedField, ValidateFunction>

/** Whether `value` may be published as `field`. */
export function conforms(field: PublishedField, value: unknown): boolean {
  return checks[field](value)
}

/** Whether a forecast may be published, its references apart: those become the enclosing signal's. */
export const forecastConforms: (forecast: unknown) => boolean = ajv.compile(Forecast)

/** Whether `value` is a date-time or uri that a strict client accepts. */
export const isMoment: (value: unknown) => boolean = ajv.compile(Moment)
export const isUri: (value: unknown) => boolean = ajv.compile(Uri)
