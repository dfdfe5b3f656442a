import { test } from 'tap'
import { lackOf } from '../support/refusal.js'
import { startServer } from '../support/server-fixture.js'

const ref = { scope: 'data_provider', data_provider_domain: 'p.example', signal_id: 's1' }
const wholesale = { discovery_mode: 'wholesale', pagination: { max_results: 5 } }

const of = (more: object) => ({ brand: { domain: 'acme.example', ...more }, operator: 'agency.example' })

/** Every rule of the specification that a request can break, with the field that the error has to name. */
const BROKEN: [string, object, string][] = [
  ['brief without anything to look for', {}, 'signal_spec'],
  ['signal_spec in wholesale', { ...wholesale, signal_spec: 'cars' }, 'signal_spec'],
  ['signal_refs in wholesale', { ...wholesale, signal_refs: [ref] }, 'signal_refs'],
  [
    'signal_ids in wholesale',
    { ...wholesale, signal_ids: [{ source: 'agent', agent_url: 'https://a.example', id: 'x' }] },
    'signal_ids',
  ],
  ['if_pricing_version alone', { ...wholesale, if_pricing_version: 'p1' }, 'if_pricing_version'],
  [
    'a conditional token in brief',
    { signal_refs: [ref], if_wholesale_feed_version: 'f1' },
    'if_wholesale_feed_version',
  ],
  ['max_results below 1', { ...wholesale, pagination: { max_results: 0 } }, 'pagination.max_results'],
  ['legacy max_results below 1', { ...wholesale, max_results: 0 }, 'max_results'],
  ['a foreign cursor', { ...wholesale, pagination: { cursor: 'nonsense' } }, 'pagination.cursor'],
  ['an unknown mode', { discovery_mode: 'everything' }, 'discovery_mode'],
  ['a wrongly typed filter', { ...wholesale, filters: { max_cpm: 'low' } }, 'filters.max_cpm'],
  ['a negative filter', { ...wholesale, filters: { max_cpm: -1 } }, 'filters.max_cpm'],
  [
    'an unknown catalog type',
    { ...wholesale, filters: { catalog_types: ['x'] } },
    'filters.catalog_types[0]',
  ],
  ['a country that is none', { ...wholesale, countries: ['usa'] }, 'countries[0]'],
  [
    'a destination without its platform',
    { ...wholesale, destinations: [{ type: 'platform' }] },
    'destinations[0].platform',
  ],
  ['a destination of no type', { ...wholesale, destinations: [{ type: 'ship' }] }, 'destinations[0].type'],
  ['an unknown field name', { ...wholesale, fields: ['colour'] }, 'fields[0]'],
  [
    'a reference without a domain',
    { signal_refs: [{ scope: 'data_provider', signal_id: 'x' }] },
    'signal_refs[0].data_provider_domain',
  ],
  ...[
    ...['sales.example/mcp', '//sales.example/mcp', 'x', '', 'https://sales .example/mcp'],
    'https://sales.example/mcp ',
  ].flatMap((url): [string, object, string][] => [
    [
      `a destination at ${url}`,
      { ...wholesale, destinations: [{ type: 'agent', agent_url: url }] },
      'destinations[0].agent_url',
    ],
    [
      `a reference to ${url}`,
      { signal_refs: [ref, { scope: 'signal_source', signal_source_url: url, signal_id: 'x' }] },
      'signal_refs[1].signal_source_url',
    ],
    [
      `a legacy id at ${url}`,
      { signal_ids: [{ source: 'agent', agent_url: url, id: 'x' }] },
      'signal_ids[0].agent_url',
    ],
  ]),
  [
    'a reference of a provider with a source',
    { signal_refs: [ref, { ...ref, signal_source_url: 'https://other.example/mcp' }] },
    'signal_refs[1].signal_source_url',
  ],
  ['a reference with a second id', { signal_refs: [{ ...ref, id: 'another' }] }, 'signal_refs[0].id'],
  [
    'a product`s reference with a domain',
    { signal_refs: [{ scope: 'product', signal_id: 'x', data_provider_domain: 'p.example' }] },
    'signal_refs[0].data_provider_domain',
  ],
  ...[wholesale, { signal_refs: [ref] }].flatMap((asked): [string, object, string][] => [
    [
      'a short token',
      { ...asked, push_notification_config: { url: 'https://x.example', token: 'short' } },
      'push_notification_config.token',
    ],
    [
      'a webhook that is no url',
      { ...asked, push_notification_config: { url: 'x' } },
      'push_notification_config.url',
    ],
  ]),
  ['an offset', { ...wholesale, pagination: { max_results: 1, offset: 100 } }, 'pagination.offset'],
  ['an unknown member of a brand', { ...wholesale, account: of({ id: 'x' }) }, 'account.brand.id'],
  ['a context that is no object', { ...wholesale, context: 'mine' }, 'context'],
  ['a version that is no release', { ...wholesale, adcp_version: '3.1.19' }, 'adcp_version'],
]

test('each broken rule is INVALID_REQUEST, names its field, and comes back in the envelope of failures', async (t) => {
  const { call } = await startServer(t)
  for (const [name, args, field] of BROKEN) {
    const answer = await call('get_signals', { context: { mine: 1 }, ...args })
    t.equal(answer.status, 'failed', name)
    t.equal(answer.adcp_error.code, 'INVALID_REQUEST', name)
    t.equal(answer.adcp_error.recovery, 'correctable', name)
    t.equal(answer.adcp_error.field, field, name)
    t.same(answer.errors, [answer.adcp_error], name)
    t.equal(answer.message, answer.adcp_error.message, name)
    t.equal(lackOf(answer.adcp_error), undefined, name)
    t.type(answer.context_id, 'string', name)
    if (field !== 'context') t.same(answer.context, { mine: 1 }, name)
  }
})

test('what the specification lets pass, passes', async (t) => {
  const { call } = await startServer(t)
  for (const args of [
    { ...wholesale, colour: 'red', ext: { a: 1 }, idempotency_key: 'k' },
    { ...wholesale, filters: { new_filter: [1] } },
    { ...wholesale, push_notification_config: { url: 'https://x.example' } },
    { ...wholesale, destinations: [{ type: 'agent', agent_url: 'urn:agent:sales' }] },
    { ...wholesale, time_budget: { interval: 5, unit: 'seconds' } },
    { discovery_mode: 'brief', signal_refs: [ref] },
    { signal_refs: [{ ...ref, ext: {}, colour: 'red' }] },
  ]) {
    const answer = await call('get_signals', args)
    t.equal(answer.status, 'completed', JSON.stringify(answer.adcp_error))
  }
})

test('no value of the request stands in an error message', async (t) => {
  const { call } = await startServer(t)
  const secret = 'hunter2<script>'
  for (const args of [
    { discovery_mode: secret },
    { ...wholesale, account: { account_id: secret } },
    { ...wholesale, pagination: { cursor: secret } },
    { ...wholesale, filters: { catalog_types: [secret] } },
    { ...wholesale, adcp_version: secret },
    { ...wholesale, account: { [secret]: 1 } },
  ]) {
    const { adcp_error, message } = await call('get_signals', args)
    t.notOk(`${adcp_error.message}${message}`.includes('hunter2'), adcp_error.message)
  }
})
