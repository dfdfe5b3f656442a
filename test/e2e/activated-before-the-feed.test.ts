/** What a handle means is not known before the feed is there: then the caller is told to come back, and not that there is no such signal. */
import { hash, randomUUID } from 'node:crypto'
import { pino } from 'pino'
import { test } from 'tap'
import { startFederation } from '../../src/composition/federation.js'
import { parseConfig } from '../../src/config/load.js'
import { systemClock } from '../../src/net/clock.js'
import { callTool } from '../support/call-tool.js'
import type { Said } from '../support/federation-over.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { startMcpAgent } from '../support/upstream-agent.js'

const TOKEN = 'a-buyer-key'
const HANDLE = 'sig_unknown_to_everybody_'
const TRADE_DESK = { type: 'platform', platform: 'the-trade-desk' }

test('a handle is looked up again once there is a feed', async (t) => {
  let answer = () => {}
  const asked = new Promise<void>((resolve) => {
    answer = resolve
  })
  const agent = await startMcpAgent(async () => {
    await asked
    return { status: 'completed', signals: [] }
  })
  t.teardown(() => agent.close())
  const config = {
    listen: { port: 0 },
    upstreams: [{ id: 'slow', url: agent.url }],
    egress: { allow_networks: ['127.0.0.0/8'] },
    callers: { keys: [{ id: 'buyer', token_sha256: hash('sha256', TOKEN, 'hex') }] },
    storage: { url: `file:${await temporaryFolder(t)}` },
  }
  const federation = await startFederation({
    config: parseConfig('test', JSON.stringify(config), {}),
    version: '0.0.0',
    clock: systemClock,
    random: Math.random,
    openAfterMs: 60_000,
    log: pino({ level: 'silent' }),
  })
  t.teardown(() => federation.close())
  const account = { brand: { domain: 'acme.example' }, operator: 'acme.example' }
  const usage = [
    { account, signal_agent_segment_id: HANDLE, impressions: 1, vendor_cost: 1, currency: 'USD' },
  ]
  const period = { start: '2026-01-01T00:00:00Z', end: '2026-01-02T00:00:00Z' }
  const requests: readonly [task: string, input: object][] = [
    ['activate_signal', { signal_agent_segment_id: HANDLE, destinations: [TRADE_DESK] }],
    [
      'activate_signal',
      { action: 'deactivate', signal_agent_segment_id: HANDLE, destinations: [TRADE_DESK] },
    ],
    ['report_usage', { reporting_period: period, usage }],
  ]
  const refusals = () =>
    Promise.all(
      requests.map(async ([task, input]) => {
        const answer: Said = await callTool(
          federation.url,
          task,
          { ...input, idempotency_key: randomUUID() },
          TOKEN,
        )
        return answer.adcp_error ?? answer
      }),
    )
  const early = { code: 'SERVICE_UNAVAILABLE', retry_after: 1, message: /still being built/ }
  t.match(await refusals(), [early, early, early])
  answer()
  await federation.ready
  const known = { code: 'REFERENCE_NOT_FOUND' }
  t.match(await refusals(), [known, known, { errors: [known] }])
})
