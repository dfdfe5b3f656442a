/** A release that is not final: served where the configuration says so, over both transports, and only to who pins it. */
import { test } from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { BUYER_TOKEN, startServer } from '../support/server-fixture.js'

const PIN = '3.2-beta.5'
const previews = [PIN] as const
const page = { discovery_mode: 'wholesale' }

async function overA2a({ post }: Awaited<ReturnType<typeof startServer>>, input: object) {
  const parts = [{ data: { skill: 'get_adcp_capabilities', input } }]
  const params = { message: { messageId: 'm', role: 'ROLE_USER', parts } }
  const body = { jsonrpc: '2.0', id: 1, method: 'SendMessage', params }
  const headers = { authorization: `Bearer ${BUYER_TOKEN}`, 'a2a-version': '1.0' }
  const { json } = await post('/a2a', body, headers)
  return json.result.task.artifacts[0].parts[0].data
}

test('3.2 is declared and served where it is switched on', async (t) => {
  const server = await startServer(t, { previews })
  const { call } = server
  t.match(await call('get_signals', { ...page, adcp_version: PIN }), {
    status: 'completed',
    adcp_version: PIN,
  })
  t.match(await call('get_signals', page), { adcp_version: '3.1' }, 'nobody gets it unasked')
  const { adcp } = await call('get_adcp_capabilities', {})
  t.same(adcp.supported_versions, ['3.0', '3.1', PIN])
  t.match(await overA2a(server, {}), { adcp, adcp_version: '3.1' }, 'over A2A the same')
  t.match(await overA2a(server, { adcp_version: PIN }), { status: 'completed', adcp, adcp_version: PIN })
})

test('without the setting there is none', async (t) => {
  const { call } = await startServer(t)
  t.match(await call('get_signals', { ...page, adcp_version: PIN }), {
    adcp_error: { code: 'VERSION_UNSUPPORTED', details: { supported_versions: ['3.0', '3.1'] } },
  })
  const read = (file: object) => () => parseConfig('t', JSON.stringify(file), {})
  t.doesNotThrow(read({ preview_releases: [PIN] }))
  t.throws(read({ preview_releases: ['3.3'] }))
  const key = { id: 'a', token_sha256: '0a'.repeat(32), signing: { jwks_url: 'https://a.example/jwks.json' } }
  t.throws(read({ preview_releases: [PIN], callers: { keys: [key] } }), { message: /preview_releases/ })
})

test('in 3.2 a notification names its operation', async (t) => {
  const { call } = await startServer(t, { previews })
  const push = { url: 'https://hooks.example/x' }
  const brief = { signal_spec: 'cars', push_notification_config: push }
  t.match(await call('get_signals', { ...brief, adcp_version: PIN }), {
    adcp_error: { code: 'INVALID_REQUEST', field: 'push_notification_config.operation_id' },
  })
  t.not((await call('get_signals', brief)).adcp_error?.field, 'push_notification_config.operation_id')
})
