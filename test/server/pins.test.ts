/** What pins get, over MCP and both versions of A2A: the release that serves them, or a refusal that says which are served. */
import { test } from 'tap'
import { BUYER_TOKEN, startServer } from '../support/server-fixture.js'

type Server = Awaited<ReturnType<typeof startServer>>
type Answer = { adcp_version: string; status: string; adcp_error?: object }

const PREVIEW = '3.2-beta.5'
const bearer = { authorization: `Bearer ${BUYER_TOKEN}` }

const WAYS: Record<string, (server: Server, input: object) => Promise<Answer>> = {
  mcp: ({ call }, input) => call('get_adcp_capabilities', input),
  async 'a2a 1.0'({ post }, input) {
    const parts = [{ data: { skill: 'get_adcp_capabilities', input } }]
    const params = { message: { messageId: 'm', role: 'ROLE_USER', parts } }
    const body = { jsonrpc: '2.0', id: 1, method: 'SendMessage', params }
    const { json } = await post('/a2a', body, { ...bearer, 'a2a-version': '1.0' })
    return json.result.task.artifacts[0].parts[0].data
  },
  async 'a2a 0.3'({ post }, parameters) {
    const parts = [{ kind: 'data', data: { skill: 'get_adcp_capabilities', parameters } }]
    const params = { message: { kind: 'message', messageId: 'm', role: 'user', parts } }
    const { json } = await post('/a2a', { jsonrpc: '2.0', id: 1, method: 'message/send', params }, bearer)
    return json.result.artifacts[0].parts[0].data
  },
}

const SERVED: [pin: object, release: string, ...previews: (typeof PREVIEW)[]][] = [
  [{}, '3.1'],
  [{ adcp_version: '3.0' }, '3.0'],
  [{ adcp_version: '3.1' }, '3.1'],
  [{ adcp_version: '3.9' }, '3.1'],
  [{ adcp_major_version: 3 }, '3.1'],
  [{ adcp_version: '3.0', adcp_major_version: 3 }, '3.0'],
  [{ adcp_version: PREVIEW }, PREVIEW, PREVIEW],
  [{ adcp_version: PREVIEW, adcp_major_version: 3 }, PREVIEW, PREVIEW],
  [{ adcp_version: '3.2' }, '3.1', PREVIEW],
  [{}, '3.1', PREVIEW],
]

const REFUSED: [pin: object, field: string, ...previews: (typeof PREVIEW)[]][] = [
  [{ adcp_version: '2.9' }, 'adcp_version'],
  [{ adcp_version: '4.0' }, 'adcp_version'],
  [{ adcp_major_version: 4 }, 'adcp_major_version'],
  [{ adcp_version: '3.1', adcp_major_version: 4 }, 'adcp_major_version'],
  [{ adcp_version: '4.0', adcp_major_version: 3 }, 'adcp_major_version'],
  [{ adcp_version: '3.1-rc.1' }, 'adcp_version'],
  [{ adcp_version: '3.0-beta.1' }, 'adcp_version'],
  [{ adcp_version: PREVIEW }, 'adcp_version'],
  [{ adcp_version: '3.2-beta.4' }, 'adcp_version', PREVIEW],
  [{ adcp_version: PREVIEW, adcp_major_version: 4 }, 'adcp_major_version', PREVIEW],
]

test('pins, however they are sent', async (t) => {
  const plain = await startServer(t)
  const preview = await startServer(t, { previews: [PREVIEW] })
  for (const [way, ask] of Object.entries(WAYS)) {
    const asked = (pin: object, previews: readonly string[]) =>
      ask(previews.length > 0 ? preview : plain, { ...pin, context: { of: 'mine' } })
    for (const [pin, adcp_version, ...previews] of SERVED) {
      const expected = { status: 'completed', adcp_version, context: { of: 'mine' } }
      t.match(
        await asked(pin, previews),
        expected,
        `${way}: ${JSON.stringify(pin)} is served by ${adcp_version}`,
      )
    }
    for (const [pin, field, ...previews] of REFUSED) {
      const supported_versions = ['3.0', '3.1', ...previews]
      const adcp_error = { code: 'VERSION_UNSUPPORTED', field, details: { supported_versions, ...pin } }
      const expected = { status: 'failed', adcp_error, errors: [adcp_error], context: { of: 'mine' } }
      t.match(await asked(pin, previews), expected, `${way}: ${JSON.stringify(pin)} is refused`)
    }
  }
})
