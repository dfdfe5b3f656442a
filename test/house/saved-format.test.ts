import { createHash } from 'node:crypto'
import { test } from 'tap'
import { compileProviders, judgeAt } from '../../src/authz/rules/verdict.js'
import { buildSnapshot } from '../../src/snapshot/builder.js'
import { snapshotParts } from '../../src/snapshot/snapshot.js'
import type { Listing } from '../../src/upstreams/rows/slice.js'
import { NOW, stateWith } from '../authz/compiled.js'
import { agentUrl, listing, sliceOf } from '../feed/world.js'

/** What SNAPSHOT_FORM in src/snapshot/snapshot.ts stands for. Whoever raises it writes down here what it stands for now. */
const RECORDED = { format: 12, digest: '4f2af809216cc769' }

const platform = (name: string, more: object = {}) =>
  ({ type: 'platform', platform: name, is_live: true, ...more }) as const
const cpm = (id: string, amount: number, currency = 'USD') =>
  ({ pricing_option_id: id, model: 'cpm', cpm: amount, currency }) as const

const FILE = {
  authorized_agents: [
    {
      url: agentUrl('north'),
      authorized_for: 'everything',
      authorization_type: 'signal_tags',
      signal_tags: ['open'],
    },
    {
      url: agentUrl('south'),
      authorized_for: 'some in two countries',
      authorization_type: 'signal_ids',
      signal_ids: ['age', 'income'],
      countries: ['DE', 'FR'],
    },
    {
      url: agentUrl('west'),
      authorized_for: 'what is over',
      authorization_type: 'signal_ids',
      signal_ids: ['age'],
      effective_until: '2020-01-01T00:00:00Z',
    },
  ],
  signals: [
    {
      id: 'age',
      name: 'Age',
      description: 'How old',
      value_type: 'numeric',
      range: { min: 18, max: 99, unit: 'years' },
      tags: ['open'],
      restricted_attributes: ['age'],
      consent_basis: ['consent'],
      countries: ['DE', 'FR', 'US'],
    },
    { id: 'income', name: 'Income', value_type: 'categorical', categories: ['low', 'high'], tags: ['open'] },
    { id: 'closed', name: 'Closed', value_type: 'binary', tags: [] },
  ],
}

const forecast: Listing['coverage_forecast'] = {
  method: 'estimate',
  forecast_range_unit: 'availability',
  scope: { kind: 'product', label: 'All', product_id: 'p' },
  bucket_semantics: 'exclusive',
  bucket_completeness: 'complete',
  points: [
    {
      dimensions: [{ kind: 'signal', presence: 'present' }],
      metrics: { coverage_rate: { low: 0.1, mid: 0.2, high: 0.3 } },
    },
  ],
}

/** One of everything that a merge has an opinion on. */
const SLICES = [
  sliceOf('north', [
    listing('age', {
      pricing_options: [cpm('a', 2), cpm('b', 3, 'EUR')],
      countries: ['US', 'DE'],
      policy_categories: ['age'],
      deployments: [platform('dv360'), platform('the-trade-desk', { is_live: false, account: 'one' })],
    }),
    listing('income', { coverage_forecast: forecast, consent_basis: ['legitimate_interest'] }),
    listing('closed'),
    listing('elsewhere', {}, 'nobody.example'),
    {
      ...listing('own'),
      signal_ref: { scope: 'signal_source', signal_source_url: agentUrl('north'), signal_id: 'own' },
    },
  ]),
  sliceOf('south', [
    listing('age', {
      name: 'Years',
      pricing_options: [
        { pricing_option_id: 'p', model: 'percent_of_media', percent: 15, max_cpm: 4, currency: 'USD' },
        { pricing_option_id: 'f', model: 'flat_fee', amount: 100, period: 'monthly', currency: 'USD' },
      ],
      deployments: [platform('dv360', { activation_key: { type: 'segment_id', segment_id: 'k1' } })],
      coverage_percentage: 40,
    }),
    listing('income', { deployments: [], data_sources: ['survey'], consent_basis: ['consent'] }),
  ]),
  sliceOf('west', [listing('age', { name: 'Refused', pricing_options: [cpm('w', 0.1)] })], {
    mode: 'enumerated',
  }),
]

test('a feed saved by this release is the one that its format number stands for', (t) => {
  const provider = stateWith(FILE)
  const judge = judgeAt(
    compileProviders([{ ...provider, domain: 'provider.example' }]),
    { policy: 'strict', providers: { 'nobody.example': { policy: 'observe' } } },
    NOW,
  )
  const parts = snapshotParts(buildSnapshot({ slices: SLICES, judge }))
  const header = JSON.parse(Buffer.from(parts[0] as Uint8Array).toString()) as {
    format: number
    count: number
  }
  t.equal(header.count, 5)
  const digest = createHash('sha256')
  for (const part of parts) digest.update(`${part.byteLength} `).update(part)
  t.same(
    { format: header.format, digest: digest.digest('hex').slice(0, 16) },
    RECORDED,
    'another digest under the same number: raise SNAPSHOT_FORM, then record both here',
  )
  t.end()
})
