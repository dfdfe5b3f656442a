/**
 * How much of an inventory a signal covers (schema core/signal-coverage-forecast, specification "CoverageForecast"): what the
 * response schemas of both 3.1 and 3.2 allow, so what only 3.2 knows, as a dimension of time, is not in it. Counts are ours,
 * and lengths where a pattern could be slow.
 */
import { check, type TProperties, type TSchema, Type, wordOf } from './schema.js'
import { Country, Domain, type SignalRef } from './signal.js'

type Range = { low?: number; mid?: number; high?: number }
type Dimension = {
  kind: string
  signal_ref?: SignalRef
  presence?: 'present' | 'absent'
  /** null: the bucket of what has no value of the signal. */
  signal_value?: string | number | boolean | null
  [more: string]: unknown
}
type Point = {
  /** Together: the point is their intersection. */
  dimensions: Dimension[]
  metrics: { coverage_rate: Range; [metric: string]: Range }
  [more: string]: unknown
}
export type CoverageForecast = {
  method: string
  forecast_range_unit: 'availability'
  scope: { kind: string; label: string; [qualifier: string]: unknown }
  bucket_semantics: 'exclusive' | 'overlapping'
  bucket_completeness: 'complete' | 'partial'
  points: Point[]
  generated_at?: string
  valid_until?: string
  ext?: object
}

const closed = { additionalProperties: false }
const Optional = Type.Optional
const Text = Type.String()
const Moment = Type.String({ format: 'date-time' })
const Day = Type.String({ format: 'date' })
/** So many that checking whether each stands there once stays cheap. */
const some = (item: TSchema) => Type.Array(item, { minItems: 1, maxItems: 1_000, uniqueItems: true })

/** A point estimate, or both bounds, or all three (schema core/forecast-range). */
function range(maximum?: number): TSchema {
  const bound = Optional(Type.Number({ minimum: 0, ...(maximum !== undefined && { maximum }) }))
  return Type.Object(
    { low: bound, mid: bound, high: bound },
    { anyOf: [{ required: ['mid'] }, { required: ['low', 'high'] }] },
  )
}
const Amount = range()
const Share = range(1)

function dimension(kind: string, members: TProperties): TSchema {
  return Type.Object({ kind: Type.Literal(kind), ...members }, closed)
}

/** Its name is checked by who puts it there (merge/coverage.ts). */
const named = {
  signal_ref: Type.Unknown(),
  signal_name: Optional(Text),
  signal_value_name: Optional(Text),
}
const SIGNAL = [
  dimension('signal', {
    ...named,
    presence: Type.Literal('present'),
    signal_value: Optional(Type.Union([Text, Type.Number(), Type.Boolean()])),
  }),
  dimension('signal', { ...named, presence: Type.Literal('absent'), signal_value: Type.Null() }),
]

const geo = (level: string, geo_code: TSchema, members: TProperties = {}) =>
  dimension('geo', {
    geo_level: Type.Literal(level),
    geo_code,
    geo_name: Optional(Text),
    ...members,
  })
/** Which countries have which postal systems of their own (schema core/postal-country-system). */
const POSTAL = [
  [['US'], ['zip', 'zip_plus_four']],
  [['GB'], ['outward', 'full']],
  [['CA'], ['fsa', 'full']],
  [['DE', 'CH', 'AT'], ['plz']],
  [['FR'], ['code_postal']],
  [['AU'], ['postcode']],
  [['BR'], ['cep']],
  [['IN'], ['pin']],
  [['ZA'], ['postal_code']],
] as const
const postal = (members: TProperties) => geo('postal_area', Text, members)
const GEO = [
  geo('country', Country),
  geo('region', Type.String({ pattern: '^[A-Z]{2}-[A-Z0-9]{1,3}$' })),
  geo('metro', Text, {
    system: wordOf(['nielsen_dma', 'uk_itl1', 'uk_itl2', 'eurostat_nuts2', 'custom']),
  }),
  ...POSTAL.map(([countries, systems]) => postal({ country: wordOf(countries), system: wordOf(systems) })),
  postal({
    country: { ...Country, not: wordOf(POSTAL.flatMap(([countries]) => countries)) },
    system: wordOf(['postal_code', 'custom']),
  }),
  postal({
    system: wordOf([
      ...['us_zip', 'us_zip_plus_four', 'gb_outward', 'gb_full', 'ca_fsa', 'ca_full'],
      ...['de_plz', 'fr_code_postal', 'au_postcode', 'ch_plz', 'at_plz'],
    ]),
  }),
]

const OTHERS = [
  dimension('placement', {
    placement_ref: Type.Object({ placement_id: Text, publisher_domain: Optional(Domain) }),
    placement_name: Optional(Text),
  }),
  dimension('device_type', {
    device_type: wordOf(['desktop', 'mobile', 'tablet', 'ctv', 'dooh', 'unknown']),
  }),
  dimension('device_platform', {
    device_platform: wordOf([
      ...['ios', 'android', 'windows', 'macos', 'linux', 'chromeos', 'tvos', 'tizen', 'webos'],
      ...['fire_os', 'roku_os', 'unknown'],
    ]),
  }),
  dimension('audience', {
    audience_id: Text,
    audience_source: wordOf(['synced', 'platform', 'third_party', 'lookalike', 'retargeting', 'unknown']),
    audience_name: Optional(Text),
  }),
]

/** Who measures (schema core/brand-ref), without the pictures and colours that a brand has for its creatives. */
const Vendor = Type.Object(
  {
    domain: Domain,
    brand_id: Optional(Type.String({ pattern: '^[a-z0-9_]+$' })),
    industries: Optional(Type.Array(Text)),
    data_subject_contestation: Optional(
      Type.Object(
        {
          url: Optional(Type.String({ format: 'uri', pattern: '^https://', maxLength: 2_048 })),
          email: Optional(Type.String({ format: 'email', maxLength: 320 })),
          languages: Optional(Type.Array(Text)),
        },
        { ...closed, anyOf: [{ required: ['url'] }, { required: ['email'] }] },
      ),
    ),
  },
  closed,
)

const viewable = {
  measurable_impressions: Optional(Amount),
  viewable_impressions: Optional(Amount),
  viewable_rate: Optional(Share),
  viewed_seconds: Optional(Amount),
}
const Viewability = Type.Object(
  { ...viewable, vendor: Optional(Vendor), standard: Optional(wordOf(['mrc', 'groupm'])) },
  { dependencies: Object.fromEntries(Object.keys(viewable).map((metric) => [metric, ['standard']])) },
)

const VendorMetric = Type.Object(
  {
    vendor: Vendor,
    metric_id: Type.String({ pattern: '^[a-z][a-z0-9_]*$', maxLength: 64 }),
    value: Amount,
    unit: Optional(Text),
    measurable_impressions: Optional(Amount),
    breakdown: Optional(Type.Object({})),
  },
  closed,
)

const Point = Type.Object({
  label: Optional(Type.String({ maxLength: 128 })),
  budget: Optional(Type.Number({ minimum: 0 })),
  product_id: Optional(Text),
  availability_status: Optional(wordOf(['available', 'unavailable'])),
  dimensions: Type.Array(Type.Union([...SIGNAL, ...GEO, ...OTHERS]), { minItems: 1 }),
  metrics: Type.Object({ coverage_rate: Share }, { additionalProperties: Amount }),
  viewability: Optional(Viewability),
  vendor_metric_values: Optional(Type.Array(VendorMetric)),
})

const scope = {
  label: Text,
  countries: Optional(some(Country)),
  line_item_types: Optional(some(Text)),
  date_range: Optional(Type.Object({ start: Day, end: Day })),
}
const Scope = Type.Union([
  Type.Object({ kind: Type.Literal('product'), product_id: Text, ...scope }),
  Type.Object({ kind: wordOf(['inventory', 'account', 'custom']), product_id: Optional(Text), ...scope }),
])

const members = {
  method: wordOf(['estimate', 'modeled', 'guaranteed']),
  forecast_range_unit: Type.Literal('availability'),
  scope: Scope,
  bucket_semantics: wordOf(['exclusive', 'overlapping']),
  bucket_completeness: wordOf(['complete', 'partial']),
  points: Type.Array(Point, { minItems: 1, maxItems: 1_000 }),
  generated_at: Optional(Moment),
  valid_until: Optional(Moment),
  ext: Optional(Type.Object({})),
}
export const FORECAST_MEMBERS: ReadonlySet<string> = new Set(Object.keys(members))

const { conforms } = check<CoverageForecast>(Type.Object(members, closed))

/**
 * Whether a response may carry it. Of each kind of dimension a point has one at most, of the signal exactly one (schema
 * core/forecast-point-dimensions).
 */
export function isCoverageForecast(value: unknown): value is CoverageForecast {
  if (!conforms(value)) return false
  return value.points.every(({ dimensions }) => {
    const kinds = new Set(dimensions.map(({ kind }) => kind))
    return kinds.size === dimensions.length && kinds.has('signal')
  })
}

/**
 * The percentage of inventory outside the absent bucket: 100 * (1 - coverage_rate.mid of that bucket), rounded to hide
 * the noise of binary fractions. Undefined without an absent bucket over the whole denominator: one of a country, or of a
 * product, says nothing about the rest.
 */
export function forecastPercentage({ points }: CoverageForecast): number | undefined {
  const absent = points.find(
    ({ dimensions, product_id }) =>
      dimensions.length === 1 && dimensions[0]?.presence === 'absent' && product_id === undefined,
  )
  const rate = absent?.metrics.coverage_rate.mid
  return rate === undefined ? undefined : Math.round(1e8 * (1 - rate)) / 1e6
}
