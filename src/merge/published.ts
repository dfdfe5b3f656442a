/**
 * What a field must look like to be published: the closed shapes of the response schema (schemas
 * core/signal-definition-enrichment, core/signal-coverage-forecast). Listings may be looser than our answers, so a
 * field that does not conform is left out and never repaired.
 */
import { SignalRef } from '../adcp/reference.js'
import { type TObject, type TProperties, type TSchema, Type } from '../adcp/type.js'
import { type Check, createChecks } from '../adcp/validation.js'
import { definitionSchemas as defined } from '../authz/rules/definition-schema.js'

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
/**
 * The restrictions that the response schema allows. Others are kept as well, elsewhere in the row
 * (merge/definition.ts).
 */
export const restrictedWords: ReadonlySet<string> = new Set(RESTRICTED)

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

export type PublishedField = keyof typeof published

const check = createChecks()
const checks = Object.fromEntries(
  Object.entries(published).map(([field, schema]) => [field, check(schema)]),
) as Record<PublishedField, Check<unknown>>

/** Whether `value` may be published as `field`. */
export function conforms(field: PublishedField, value: unknown): boolean {
  return checks[field].conforms(value)
}

/** Whether a forecast may be published. Its references are not checked: they are rewritten to the enclosing signal. */
export const { conforms: forecastConforms } = check(Forecast)

/** Whether a strict client accepts `value` as a date-time. */
export const { conforms: isMoment } = check<string>(Moment)

/** Whether a strict client accepts `value` as a uri. */
export const { conforms: isUri } = check<string>(Uri)
