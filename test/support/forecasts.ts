/** Coverage forecasts of the signal `s`, valid by the protocol's schemas and nearly so. */
import fc from 'fast-check'

const maybe = <T>(of: fc.Arbitrary<T>) => fc.option(of, { nil: undefined, freq: 2 })
const text = fc.constantFrom('all', 'Ü', '')
const amount = fc.constantFrom(0, 0.25, 1, 1_000)
const share = fc.constantFrom(0, 0.25, 1)
const range = (of: fc.Arbitrary<number>) =>
  fc.oneof(
    fc.record({ mid: of }),
    fc.record({ low: of, high: of }),
    fc.record({ high: of, mid: of, low: of }),
  )
const own = fc.constantFrom(
  { signal_ref: { scope: 'data_provider', data_provider_domain: 'provider.example', signal_id: 's' } },
  { signal_ref: { scope: 'product', signal_id: 's' } },
  { signal_id: 's' },
)

const signal = fc
  .tuple(
    own,
    fc.record({ signal_name: maybe(text), signal_value_name: maybe(text) }),
    fc.constantFrom(
      ...['high', 18, true].map((signal_value) => ({ presence: 'present', signal_value })),
      { presence: 'present' },
      { signal_value: null, presence: 'absent' },
    ),
  )
  .map(([name, words, value]) => ({ kind: 'signal', ...name, ...words, ...value }))
const geo = fc.constantFrom(
  { geo_level: 'country', geo_code: 'DE' },
  { geo_level: 'region', geo_code: 'DE-BY', geo_name: 'Bavaria' },
  { geo_level: 'metro', geo_code: '501', system: 'nielsen_dma' },
  { geo_level: 'postal_area', geo_code: '80331', country: 'DE', system: 'plz' },
  { geo_level: 'postal_area', geo_code: '28001', country: 'ES', system: 'postal_code' },
  { geo_level: 'postal_area', geo_code: '10001', system: 'us_zip' },
)
const others = fc.constantFrom<object>(
  { kind: 'placement', placement_ref: { placement_id: 'p', publisher_domain: 'a.example' } },
  { kind: 'device_type', device_type: 'ctv' },
  { kind: 'device_platform', device_platform: 'tvos' },
  { kind: 'audience', audience_id: 'a', audience_source: 'platform', audience_name: 'A' },
)
const vendor = fc.constantFrom<object>(
  { domain: 'v.example' },
  {
    domain: 'v.example',
    brand_id: 'v',
    industries: ['ads'],
    data_subject_contestation: { url: 'https://v.example/' },
  },
)

const point = fc
  .record({
    label: maybe(text),
    budget: maybe(amount),
    product_id: maybe(text),
    availability_status: maybe(fc.constantFrom('available', 'unavailable')),
    signal,
    geo: maybe(geo),
    others: maybe(others),
    metrics: fc.record(
      { impressions: range(amount), coverage_rate: range(share), ours: range(amount) },
      { requiredKeys: ['coverage_rate'] },
    ),
    viewability: maybe(
      fc.constantFrom<object>({ viewable_rate: { mid: 0.7 }, standard: 'mrc' }, { note: 'none yet' }),
    ),
    vendor_metric_values: maybe(
      fc.array(
        fc.record({
          vendor,
          metric_id: fc.constant('attention_1'),
          value: range(amount),
          breakdown: fc.constantFrom({ a: null, b: [] }, {}),
        }),
        { maxLength: 2 },
      ),
    ),
    seat: maybe(text),
  })
  .map(({ signal, geo, others, ...more }) => ({
    ...more,
    dimensions: [...(geo ? [{ kind: 'geo', ...geo }] : []), signal, ...(others ? [others] : [])],
  }))

const qualifiers = fc.record({
  countries: maybe(fc.constantFrom(['DE'], ['US', 'FR'])),
  line_item_types: maybe(fc.constant(['standard'])),
  date_range: maybe(fc.constant({ start: '2026-01-01', end: '2026-01-31' })),
  ad_server: maybe(fc.constantFrom<unknown>('gam', { name: 'gam' }, 1)),
})
const scope = fc
  .tuple(
    fc.constantFrom(
      { kind: 'inventory' },
      { kind: 'account' },
      { kind: 'custom' },
      { kind: 'product', product_id: 'p' },
    ),
    text,
    qualifiers,
  )
  .map(([kind, label, more]) => ({ ...kind, label, ...more }))

/** The same without what is undefined, as it is sent. */
const sent = (value: unknown): Record<string, unknown> => JSON.parse(JSON.stringify(value))

/** Valid by the schemas of every served release. */
export const validForecast = fc
  .record(
    {
      method: fc.constantFrom('estimate', 'modeled', 'guaranteed'),
      forecast_range_unit: fc.constant('availability'),
      scope,
      bucket_semantics: fc.constantFrom('exclusive', 'overlapping'),
      bucket_completeness: fc.constantFrom('complete', 'partial'),
      points: fc.array(point, { minLength: 1, maxLength: 3 }),
      generated_at: maybe(fc.constant('2026-01-01T00:00:00Z')),
      valid_until: maybe(fc.constant('2026-02-01T00:00:00+01:00')),
      ext: maybe(fc.constantFrom<object>({ vendor: { a: [1, null] } }, {})),
    },
    { noNullPrototype: true },
  )
  .map(sent)

/** Every object and list in a value. */
function holders(value: unknown): object[] {
  if (typeof value !== 'object' || value === null) return []
  return [value, ...Object.values(value).flatMap(holders)]
}

const STRANGE = [
  null,
  [],
  {},
  -1,
  1.5,
  '',
  'geo',
  'time',
  'absent',
  'US',
  'postal_area',
  'product',
  { mid: 2 },
]

/** A valid forecast in which one member is another, is missing or is added. */
export const nearForecast = fc
  .tuple(validForecast, fc.nat(), fc.nat(), fc.constantFrom('cut', 'cut', 'set', 'add'), fc.nat())
  .map(([valid, which, place, change, strange]) => {
    const forecast = sent(valid)
    const all = holders(forecast)
    const holder = all[which % all.length] as Record<string, unknown>
    const names = [...Object.keys(holder), '__proto__x']
    const name = change === 'add' ? 'more' : (names[place % names.length] as string)
    if (change === 'cut' && !Array.isArray(holder)) delete holder[name]
    else if (!Array.isArray(holder)) holder[name] = STRANGE[strange % STRANGE.length]
    else holder.push(STRANGE[strange % STRANGE.length])
    return forecast
  })

export const anyForecast = fc.oneof({ weight: 2, arbitrary: validForecast }, nearForecast)
