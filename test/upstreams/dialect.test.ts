import { test } from 'tap'
import type { AgentOutcome } from '../../src/upstreams/agent/agent.js'
import { argumentsFor, dialectOf, listingFields, refusalOf } from '../../src/upstreams/agent/dialect.js'
import { NO_ROWS } from '../../src/upstreams/rows/read-rows.js'

const answer = (payload: Record<string, unknown>): AgentOutcome => ({
  kind: 'answer',
  payload,
  rows: NO_ROWS,
})
const error = (code: string): AgentOutcome => ({ kind: 'error', error: { code, message: 'm' } })
const versions = (...supported: string[]) =>
  answer({ adcp: { major_versions: [3], supported_versions: supported } })

test('capabilities tell the release', async (t) => {
  t.match(dialectOf(versions('3.0', '3.1')), { release: 'current', pin: '3.1' })
  t.match(dialectOf(versions('3.0', '3.1', '3.2-beta.5')), { pin: '3.2-beta.5' })
  t.match(dialectOf(versions('3.1', '3.2')), { pin: '3.2' })
  t.match(dialectOf(versions('3.1', '3.2-rc.9')), { pin: '3.1' }, 'a prerelease that is not known here')
  t.match(dialectOf(versions('3.0', '3.1-rc.4')), { release: 'current', pin: undefined })
  t.match(dialectOf(versions('3.0')), { release: '3.0' })
  t.match(dialectOf(answer({ adcp: { major_versions: [3] } })), { release: '3.0', declaresWholesale: false })
  t.match(dialectOf(answer({ adcp_version: '3.2-beta.5' })), { release: 'current' })
  t.match(dialectOf(answer({ signals: { discovery_modes: ['brief', 'wholesale'] } })), {
    release: 'current',
    declaresWholesale: true,
  })
})

test('3.2 is read at its best: its own field, its own encoding of signatures', async (t) => {
  t.ok(listingFields({ pin: '3.2-beta.5' }).includes('demographic_predicate'))
  t.notOk(listingFields({ pin: '3.1' }).includes('demographic_predicate'), '3.1 refuses the name')
  t.notOk(listingFields({}).includes('demographic_predicate'))
  const signing = { supported: true, supported_for: ['activate_signal'], covers_content_digest: 'required' }
  const signed = (...supported: string[]) =>
    dialectOf(answer({ adcp: { supported_versions: supported }, request_signing: signing }))
  t.match(signed('3.1'), { signing: { padded: false } })
  t.match(signed('3.1', '3.2-beta.5'), { signing: { padded: true } })
})

test('an agent without the capabilities operation is an older one; trouble says nothing', async (t) => {
  for (const code of ['NOT_IMPLEMENTED', 'TOOL_ERROR', 'INVALID_REQUEST']) {
    t.match(dialectOf(error(code)), { release: 'older' })
  }
  for (const code of ['SERVICE_UNAVAILABLE', 'RATE_LIMITED', 'TIMEOUT', 'INTERNAL_ERROR']) {
    t.equal(dialectOf(error(code)), undefined, `${code} says nothing of the agent`)
  }
  t.equal(dialectOf({ kind: 'failed', reason: 'timeout', message: '' }), undefined)
})

const ref = { scope: 'data_provider', data_provider_domain: 'a.example', signal_id: 'x' }
const destinations = [{ type: 'platform', platform: 'dv360' }]
const asked = {
  discovery_mode: 'brief',
  signal_refs: [ref],
  destinations,
  countries: ['DE'],
  context: {},
  fields: ['name'],
}

test('a current agent is sent everything, with the release it declared', async (t) => {
  const dialect = { release: 'current', declaresWholesale: true, pin: '3.1' } as const
  t.same(argumentsFor(dialect, 'get_signals', asked), { adcp_version: '3.1', ...asked })
})

test('an agent of 3.0 is sent what 3.0 knew, references as legacy ids', async (t) => {
  const dialect = { release: '3.0', declaresWholesale: false } as const
  t.same(argumentsFor(dialect, 'get_signals', asked), {
    signal_ids: [{ source: 'catalog', data_provider_domain: 'a.example', id: 'x' }],
    destinations,
    countries: ['DE'],
    context: {},
  })
})

test('an older agent is told where to deliver, and what to activate in its own words', async (t) => {
  const dialect = { release: 'older', declaresWholesale: false } as const
  const brief = argumentsFor(dialect, 'get_signals', { signal_spec: 'cars', ...asked })
  t.same(brief, {
    signal_spec: 'cars',
    deliver_to: { platforms: 'all', deployments: destinations, countries: ['DE'] },
  })
  t.match(argumentsFor(dialect, 'get_signals', { signal_spec: 'cars' }).deliver_to, { countries: ['US'] })
  const activation = {
    signal_agent_segment_id: 's',
    destinations,
    idempotency_key: 'k',
    pricing_option_id: 'p',
  }
  t.same(argumentsFor(dialect, 'activate_signal', activation), {
    signal_agent_segment_id: 's',
    deployments: destinations,
  })
})

test('a task that no table names is passed as it is', async (t) => {
  const dialect = { release: 'older', declaresWholesale: false } as const
  t.same(argumentsFor(dialect, 'report_usage', { rows: 1 }), { rows: 1 })
})

test('what an agent refuses for the credential, for an account, or for the moment', async (t) => {
  const reasonOf = (code: string, message = 'm') => refusalOf({ code, message }).reason
  for (const code of ['AUTH_REQUIRED', 'AUTH_INVALID', 'AGENT_ACCESS_DENIED', 'PERMISSION_DENIED']) {
    t.equal(reasonOf(code), 'unauthorized', code)
  }
  for (const code of ['PERMISSION_DENIED_NOT', 'UNAUTHORIZED_FIELD', 'TIMEOUT']) {
    t.equal(reasonOf(code), 'agent_error', code)
  }
  t.equal(reasonOf('ACCOUNT_NOT_FOUND'), 'account_needed')
  t.equal(reasonOf('VALIDATION_ERROR', 'account: field required'), 'account_needed')
  t.equal(reasonOf('RATE_LIMITED', 'of this account'), 'rate_limited')
})

test('a url that is longer than may be kept is none', (t) => {
  const signed = { wholesale_feed_webhooks: { supported: true }, webhook_signing: { supported: true } }
  for (const [length, isKept] of [
    [2_048, true],
    [2_049, false],
    [500_000, false],
  ] as const) {
    const url = 'https://a.example/'.padEnd(length, 'x')
    const dialect = dialectOf(answer({ ...signed, identity: { brand_json_url: url } }))
    t.equal(dialect?.feedEvents?.brandJsonUrl, isKept ? url : undefined, `${length} characters`)
  }
  t.end()
})
