import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv } from 'ajv'
import formats from 'ajv-formats'
import { test } from 'tap'
import { createFeed } from '../../src/feed/feed.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import type { Listing } from '../../src/upstreams/rows/slice.js'
import { rowsOf, walk } from './reader.js'
import { AUTHORIZED, anonymous, buyer, judgeThat, listing, sliceOf } from './world.js'

const SCHEMAS = '../shared/adcp/schemas/3.1.19'

function responseValidator() {
  const ajv = new Ajv({ strict: false, allErrors: true })
  formats.default(ajv)
  for (const path of readdirSync(SCHEMAS, { recursive: true, encoding: 'utf8' })) {
    if (path.endsWith('.json')) ajv.addSchema(JSON.parse(readFileSync(join(SCHEMAS, path), 'utf8')))
  }
  const validate = ajv.getSchema('/schemas/3.1.19/signals/get-signals-response.json')
  if (!validate) throw new Error('the response schema was expected among the shared schemas')
  return validate
}

const source = 'https://other.example/signals'
const listings: Listing[] = [
  listing('plain'),
  listing('rich', {
    value_type: 'categorical',
    categories: ['a', 'b'],
    countries: ['DE', 'FR'],
    consent_basis: ['consent'],
    art9_basis: 'explicit_consent',
    taxonomy: { ref: 'https://provider.example/taxonomy', values: [{ id: '1' }] },
    coverage_forecast: {
      method: 'estimate',
      forecast_range_unit: 'availability',
      scope: { kind: 'product', label: 'all', product_id: 'p', countries: ['DE'], ad_server: 'gam' },
      valid_until: '2027-01-01T00:00:00Z',
      bucket_semantics: 'exclusive',
      bucket_completeness: 'complete',
      points: [
        {
          label: 'absent',
          dimensions: [
            {
              kind: 'signal',
              signal_id: 'rich',
              signal_value: null,
              presence: 'absent',
            },
          ],
          metrics: { coverage_rate: { mid: 0.7 } },
        },
        {
          label: 'present',
          dimensions: [
            { kind: 'signal', presence: 'present' },
            { kind: 'geo', geo_level: 'country', geo_code: 'DE' },
          ],
          metrics: { coverage_rate: { low: 0.2, high: 0.3 }, reach: { mid: 1_000 } },
        },
        ...[18, 1.5, true, 'high'].map((signal_value) => ({
          dimensions: [{ kind: 'signal', signal_value, presence: 'present' as const }],
          metrics: { coverage_rate: { mid: 0.1 } },
        })),
      ],
    },
    pricing_options: [
      { pricing_option_id: '1', model: 'percent_of_media', percent: 15, max_cpm: 3, currency: 'EUR' },
      { pricing_option_id: '2', model: 'flat_fee', amount: 100, period: 'monthly', currency: 'EUR' },
      { pricing_option_id: '3', model: 'per_unit', unit: 'call', unit_price: 0.1, currency: 'EUR' },
      { pricing_option_id: '4', model: 'custom', description: 'ask', metadata: { a: 1 } },
    ],
  }),
  // Fields that a listing may carry and a response may not: left out, not repaired.
  listing('loose', {
    methodology: 'magic',
    data_sources: ['web_usage', 'tea_leaves'],
    restricted_attributes: ['shoe_size'],
    consent_basis: ['hope'],
    art9_basis: 'none',
    modeling: {},
    onboarder: { match_keys: ['soul'] },
    data_subject_rights: { channels: [{}] },
    refresh_cadence: 'now and then',
    criteria_url: 'not a url',
    taxonomy: { ref: 'nowhere', values: [{ id: '1' }] },
    deployments: [
      { type: 'agent', agent_url: 'not a url', is_live: false },
      { type: 'agent', agent_url: 'https://sales.example', is_live: true, account: 'a' },
    ],
  }),
  {
    ...listing('owned'),
    signal_ref: { scope: 'signal_source', signal_source_url: source, signal_id: 'mine' },
  },
  (({ signal_ref: _, ...row }) => row)(listing('nameless', { signal_agent_segment_id: 'any thing / here' })),
]

test('every published row is valid by the response schema, for every reader', (t) => {
  if (!existsSync(SCHEMAS)) {
    t.comment(`skipped: ${SCHEMAS} is not here`)
    return t.end()
  }
  const validate = responseValidator()
  const feed = createFeed({ cursorSecret: 's', retain: { ms: 1, bytes: 2 ** 30 } })
  const judge = judgeThat({ decide: () => AUTHORIZED })
  feed.publish(buildSnapshot({ slices: [sliceOf('north', listings)], judge }), 0)
  for (const reader of [buyer, anonymous]) {
    for (const query of [
      {},
      { fields: ['taxonomy'] },
      { destinations: [{ type: 'agent', agent_url: 'https://sales.example' }] },
    ] as const) {
      const signals = walk(feed, query as object, reader).flatMap(rowsOf)
      t.ok(signals.length > 0)
      const forecasts = signals.filter((signal) => 'coverage_forecast' in signal)
      t.equal(forecasts.length, 'destinations' in query ? 0 : 1)
      const response = { status: 'completed', adcp_version: '3.1', cache_scope: 'public', signals }
      t.ok(validate(response), JSON.stringify(validate.errors?.slice(0, 3)))
    }
  }
  t.end()
})
