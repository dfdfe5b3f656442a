import { test } from 'tap'
import { readRow } from '../../src/upstreams/rows/listing.js'
import { row } from '../support/upstream-world.js'

const read = (value: unknown) =>
  readRow(Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)))

function listing(value: unknown) {
  const outcome = read(value)
  if (outcome.kind === 'dropped') throw new Error(`dropped: ${outcome.reason}`)
  return outcome
}

test('a current row is kept byte for byte', async (t) => {
  t.same(listing(row(1)).quirks, [])
  const text = JSON.stringify(row(1))
  t.equal(listing(text).bytes.toString(), text)
})

test('unknown fields, nulls and empty lists are left out, known ones are kept', async (t) => {
  const { bytes, listing: kept } = listing(
    row(1, {
      has_pricing_data: true,
      coverage_forecast: null,
      pricing_options: [],
      consent_basis: ['consent'],
      deployments: [
        { type: 'platform', platform: 'dv360', account: null, is_live: false, scope: 'platform-wide' },
      ],
    }),
  )
  const { pricing_options: _, ...base } = row(1)
  const expected = {
    ...base,
    consent_basis: ['consent'],
    deployments: [{ type: 'platform', platform: 'dv360', is_live: false }],
  }
  t.same(kept, expected)
  t.same(JSON.parse(bytes.toString()), expected)
})

test('a forecast is kept as it came, and one that is wrong does not cost the row', async (t) => {
  const point = {
    dimensions: [{ kind: 'signal', signal_id: 'a', presence: 'present', signal_value_name: 'A' }],
    metrics: { coverage_rate: { low: 0.1, high: 0.2 }, reach: { mid: 3 } },
  }
  const scope = { kind: 'product', label: 'all', product_id: 'p', countries: ['DE'] }
  for (const coverage_forecast of [
    { scope, points: [point], valid_until: '2026-01-01T00:00:00Z', ext: { vendor: 1 } },
    { points: [{ ...point, dimensions: [{ kind: 'signal', signal_value: { from: 18 } }] }] },
    'high',
  ]) {
    t.same(listing(row(1, { coverage_forecast })).listing.coverage_forecast, coverage_forecast)
  }
  const deep = JSON.parse(`${'['.repeat(12)}${']'.repeat(12)}`)
  t.notOk('coverage_forecast' in listing(row(1, { coverage_forecast: { ext: { deep } } })).listing)
})

test('names and descriptions are bounded in UTF-16 units', async (t) => {
  const told = (name: string, description: string) => {
    const outcome = read(row(1, { name, description }))
    return outcome.kind === 'dropped' ? outcome.reason : outcome.kind
  }
  t.equal(told('é'.repeat(512), 'é'.repeat(8_192)), 'listing')
  t.equal(told('😀'.repeat(256), ''), 'listing')
  t.equal(told('😀'.repeat(257), ''), 'bad_name')
  t.equal(told('', ''), 'bad_name')
  t.equal(told('n', '😀'.repeat(4_097)), 'bad_description')
})

test('objects that the protocol leaves open keep what is in them, within bounds', async (t) => {
  const metadata = { tiers: [{ from: 1, to: 2 }] }
  const option = { pricing_option_id: 'x', model: 'custom', description: 'd', metadata }
  t.match(listing(row(1, { pricing_options: [option] })).listing.pricing_options, [{ metadata }])
  let deep: Record<string, unknown> = {}
  for (let at = 0; at < 20; at++) deep = { deep }
  const tooDeep = row(1, { pricing_options: [{ ...option, metadata: deep }] })
  t.match(read(tooDeep), { kind: 'dropped', reason: 'bad_pricing_options' })
  const large = row(1, { pricing_options: [{ ...option, metadata: { tiers: [{ to: 'most' }] } }] })
  const tooLarge = JSON.stringify(large).replace('"most"', '1e999')
  t.match(read(tooLarge), { kind: 'dropped', reason: 'bad_pricing_options' }, 'JSON could not say it again')
})

test('a legacy id becomes a reference, in lower case; an existing reference stays', async (t) => {
  const signal_id = { source: 'catalog', data_provider_domain: 'TridentAuto.example', id: 'ev' }
  t.match(listing(row(1, { signal_ref: undefined, signal_id })), {
    listing: {
      signal_ref: { scope: 'data_provider', data_provider_domain: 'tridentauto.example', signal_id: 'ev' },
    },
    quirks: ['capital_domain', 'signal_id'],
  })
  t.match(listing(row(1, { signal_id })).listing.signal_ref, { signal_id: 'signal_1' })
  const capital = { scope: 'data_provider', data_provider_domain: 'TridentAuto.example', signal_id: 'ev' }
  t.same(listing(row(1, { signal_ref: capital })).quirks, ['capital_domain'])
  const own = { source: 'agent', agent_url: 'https://a.example/mcp', id: 'x' }
  t.match(listing(row(1, { signal_ref: undefined, signal_id: own })).listing.signal_ref, {
    scope: 'signal_source',
  })
})

test('the oldest rows are read: plural segment id, data kinds as type, one price, bare deployments', async (t) => {
  const { listing: kept, quirks } = listing({
    signals_agent_segment_id: 'lux',
    name: 'Luxury',
    description: 'Pages',
    signal_type: 'audience',
    data_provider: 'Peer39',
    deployments: [
      { platform: 'openx', account: null, is_live: true, decisioning_platform_segment_id: 'ox_1' },
      { platform: 'pubmatic', is_live: false, decisioning_platform_segment_id: null },
    ],
    pricing: { cpm: 2.5, revenue_share_percentage: 12, currency: 'USD' },
  })
  t.same(kept, {
    signal_agent_segment_id: 'lux',
    name: 'Luxury',
    description: 'Pages',
    signal_type: 'marketplace',
    data_provider: 'Peer39',
    deployments: [
      {
        type: 'platform',
        platform: 'openx',
        is_live: true,
        activation_key: { type: 'segment_id', segment_id: 'ox_1' },
      },
      { type: 'platform', platform: 'pubmatic', is_live: false },
    ],
    pricing_options: [
      { pricing_option_id: 'cpm', model: 'cpm', cpm: 2.5, currency: 'USD' },
      { pricing_option_id: 'percent_of_media', model: 'percent_of_media', percent: 12, currency: 'USD' },
    ],
  })
  t.same(quirks, ['signals_agent_segment_id', 'signal_type', 'pricing', 'deployments'])
})

test('a row that cannot be a listing is dropped with the reason', async (t) => {
  const product = { scope: 'product', signal_id: 'x' }
  const cases: [unknown, string][] = [
    ['{"signal_agent_segment_id": ', 'malformed'],
    ['[1]', 'malformed'],
    ['"text"', 'malformed'],
    [row(1, { description: 'x'.repeat(10_000_000) }), 'too_large'],
    [row(1, { description: 'x'.repeat(9_000) }), 'bad_description'],
    [row(1, { name: undefined }), 'bad_name'],
    [row(1, { name: null }), 'bad_name'],
    [row(1, { deployments: [{ type: 'platform', is_live: true }] }), 'bad_deployments'],
    [JSON.stringify(row(1)).replace('"cpm":2', '"cpm":1e999'), 'bad_pricing_options'],
    [row(1, { coverage_percentage: -1 }), 'bad_coverage_percentage'],
    [row(1, { signal_ref: product }), 'product_scope'],
    [
      row(1, { signal_ref: { scope: 'data_provider', data_provider_domain: '../x', signal_id: 'x' } }),
      'bad_signal_ref',
    ],
    [row(1, { signal_agent_segment_id: 7 }), 'bad_signal_agent_segment_id'],
  ]
  for (const [value, reason] of cases) t.match(read(value), { kind: 'dropped', reason }, reason)
})

test('a row cannot reach into prototypes', async (t) => {
  const text = JSON.stringify(row(1)).replace(
    '{',
    '{"__proto__":{"polluted":true},"constructor":{"prototype":{}},',
  )
  const { bytes, listing: kept } = listing(text)
  t.notOk('polluted' in kept)
  t.notOk(bytes.includes('__proto__'))
})

test('a row that could be read in two ways is refused, wherever a name stands twice', async (t) => {
  const text = JSON.stringify(row(1))
  const other = '{"scope":"data_provider","data_provider_domain":"other.example","signal_id":"x"}'
  const twice: Record<string, string> = {
    'the reference': text.replace('{', `{"signal_ref":${other},`),
    'the reference, once in an escape': text.replace('{', `{"\\u0073ignal_ref":${other},`),
    'inside the reference': text.replace('"scope":', '"scope":"product","scope":'),
    'inside a list': text.replace('"is_live":', '"is_live":true,"is_live":'),
    'inside a field that is left out': text.replace('{', '{"x":[{"a":{"b":1,"b":1}}],'),
    'a name that is no name': text.replace('{', '{"__proto__":1,"__proto__":{"a":1},'),
  }
  for (const [where, each] of Object.entries(twice)) {
    t.match(read(each), { kind: 'dropped', reason: 'duplicate_member' }, where)
  }
  t.match(read(row(1, { description: '"a":1,"a":2' })), { kind: 'listing' }, 'a text is no member')
})

test('what no database takes and what steers terminals is refused; line breaks are not', async (t) => {
  const cases: [string, string][] = [
    ['\\u0000', 'dropped'],
    ['\\u001b[31m', 'dropped'],
    ['\\ud83d', 'dropped'],
    ['\\ude00\\ud83d', 'dropped'],
    ['\\ud83d\\ude00', 'listing'],
    ['\\n\\t\\r', 'listing'],
    ['\\\\u0000', 'listing'],
  ]
  for (const [written, kind] of cases) {
    const text = JSON.stringify(row(1)).replace('Shoppers', `Shoppers ${written}`)
    t.match(read(text), kind === 'listing' ? { kind } : { kind, reason: 'control_characters' }, written)
  }
  const name = { pricing_option_id: 'p', model: 'custom', description: 'd', metadata: { 'a\u0000': 1 } }
  t.match(read(row(1, { pricing_options: [name] })), { reason: 'control_characters' }, 'in a name')
})

test('a row nested without end is refused before it is parsed', async (t) => {
  const deep = `{"x":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
  t.match(read(deep), { kind: 'dropped', reason: 'too_deep' })
})
