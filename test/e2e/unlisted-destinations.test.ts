import { randomUUID } from 'node:crypto'
import { type Test, test } from 'tap'
import { type Said, startOver, TRADE_DESK } from '../support/federation-over.js'
import { startMcpAgent } from '../support/upstream-agent.js'

const DV360 = { type: 'platform', platform: 'dv360' }

/** As the protocol SDK's example adapters do: nothing listed, open schemas, no `action`; whatever it is sent activates. */
async function startQuietAgent(t: Test) {
  const sent: Said[] = []
  const signal = {
    signal_agent_segment_id: 'quiet_1',
    signal_id: { source: 'catalog', data_provider_domain: 'quiet.example', id: 'coffee' },
    ...{ name: 'Coffee drinkers', description: 'People who drink coffee', signal_type: 'marketplace' },
    ...{ data_provider: 'Quiet House', coverage_percentage: 10, deployments: [] },
    pricing_options: [
      { pricing_option_id: 'po_1', model: 'cpm', cpm: 2, currency: 'USD' },
      { pricing_option_id: 'po_2', model: 'cpm', cpm: 3, currency: 'USD' },
    ],
  }
  const names = (...words: string[]) => ({
    type: 'object' as const,
    properties: Object.fromEntries(words.map((word) => [word, {}])),
  })
  const agent = await startMcpAgent(
    (task, args) => {
      if (task === 'get_adcp_capabilities') return { adcp: { supported_versions: ['3.1'] } }
      if (task === 'get_signals') return { signals: [signal] }
      if (task !== 'activate_signal') return undefined
      sent.push(args)
      const [destination] = args.destinations as object[]
      if ((destination as Said).platform === 'dv360')
        return { errors: [{ code: 'NOT_SERVED', message: 'no' }] }
      const activation_key = { type: 'segment_id', segment_id: 'ttd_77' }
      return { deployments: [{ ...destination, is_live: true, activation_key }] }
    },
    { sessions: false, json: true },
    [
      { name: 'get_adcp_capabilities', inputSchema: names() },
      {
        name: 'get_signals',
        inputSchema: names('signal_spec', 'discovery_mode', 'signal_refs', 'pagination', 'fields', 'filters'),
      },
      {
        name: 'activate_signal',
        inputSchema: names('signal_agent_segment_id', 'destinations', 'pricing_option_id', 'idempotency_key'),
      },
    ],
  )
  t.teardown(() => agent.close())
  return { ...agent, sent }
}

test('an agent that lists no destinations is found, asked and believed', async (t) => {
  const agent = await startQuietAgent(t)
  const over = await startOver(t, [{ id: 'quiet', url: agent.url }])
  const { signals, errors } = await over.wholesale({ destinations: [TRADE_DESK] })
  t.equal(signals.length, 1, 'destinations do not hide it')
  t.match(signals[0].ext.tributary.offers, [{ upstream: 'quiet', destinations_not_listed: true }])
  t.match(errors, [
    { code: 'REFERENCE_NOT_FOUND', severity: 'warning', message: /lists this platform/ },
    { code: 'PARTIAL_COVERAGE', severity: 'warning', message: /list no destinations.*not promised/ },
  ])
  const { errors: none } = await over.wholesale()
  t.notMatch(JSON.stringify(none ?? []), /PARTIAL_COVERAGE/)

  const signal_agent_segment_id = signals[0].signal_agent_segment_id
  const request = { signal_agent_segment_id, destinations: [TRADE_DESK], idempotency_key: randomUUID() }
  const ambiguous = await over.call('activate_signal', request)
  const { choices } = ambiguous.adcp_error.details
  t.equal(choices.length, 2, 'one a price')
  t.same(
    choices.map(({ destinations }: Said) => destinations),
    [[TRADE_DESK], [TRADE_DESK]],
  )
  const answer = await over.call('activate_signal', choices[0])
  t.match(answer, {
    status: 'completed',
    deployments: [{ ...TRADE_DESK, is_live: true, activation_key: { segment_id: 'ttd_77' } }],
  })
  t.match(agent.sent, [{ signal_agent_segment_id: 'quiet_1', destinations: [TRADE_DESK] }])

  const elsewhere = { ...choices[0], destinations: [DV360], idempotency_key: randomUUID() }
  const refused = await over.call('activate_signal', elsewhere)
  t.match(refused.adcp_error, { details: { upstream: 'quiet', upstream_code: 'NOT_SERVED' } })
})

test('what is not known to be on is not switched off, and an agent that cannot switch off is not asked to', async (t) => {
  const agent = await startQuietAgent(t)
  const over = await startOver(t, [{ id: 'quiet', url: agent.url }])
  const { signals } = await over.wholesale()
  const [{ signal_agent_segment_id, pricing_options }] = signals
  const ask = (more: object) =>
    over.call('activate_signal', {
      ...{ signal_agent_segment_id, destinations: [TRADE_DESK], idempotency_key: randomUUID() },
      ...more,
    })
  const never = await ask({ action: 'deactivate' })
  t.match(never.adcp_error, { code: 'REFERENCE_NOT_FOUND', message: /nothing to switch off/ })
  t.same(agent.sent, [], 'it was not asked')
  const [{ pricing_option_id }] = pricing_options
  t.match(await ask({ pricing_option_id }), { status: 'completed' })
  const off = await ask({ action: 'deactivate' })
  t.match(off.adcp_error, {
    field: 'action',
    suggestion: /whoever runs the upstream/,
    details: { upstream: 'quiet' },
  })
  t.equal(agent.sent.length, 1, 'its ignorance of `action` activates nothing')
})
