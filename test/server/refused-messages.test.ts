import { test } from 'tap'
import { startServer } from '../support/server-fixture.js'

const rpc = (method: string, params?: object) => ({
  jsonrpc: '2.0',
  id: 1,
  method,
  ...(params && { params }),
})
const message = (parts: object[]) => ({ messageId: 'm', role: 'ROLE_USER', parts })

test('a JSON-RPC error leaves one line with its reason, whatever its HTTP status', async (t) => {
  const { post, send, lines } = await startServer(t)
  const cases: [path: string, body: unknown, told: string[]][] = [
    ['/mcp', rpc('tools/call', { name: 's3cret_tool' }), ['200 unknown_tool']],
    ['/mcp', rpc('tools/call'), ['200 unknown_tool']],
    ['/mcp', rpc('s3cret/method'), ['200 unknown_method']],
    ['/mcp', rpc('tools/list', { cursor: 7 }), ['200 invalid_params']],
    ['/mcp', '{"jsonrpc":"2.0",', ['400 not_json']],
    ['/mcp', { id: 1, method: 'tools/list' }, ['400 invalid_message']],
    ['/mcp', [rpc('tools/call', { name: 'x' }), 7, rpc('ping')], ['200 unknown_tool', '200 invalid_message']],
    ['/a2a', rpc('s3cret/method'), ['200 unknown_method']],
    [
      '/a2a',
      rpc('SendMessage', { message: message([{ data: { skill: 's3cret' } }]) }),
      ['200 unknown_skill'],
    ],
    ['/a2a', rpc('SendMessage', { message: 7 }), ['200 invalid_params']],
    ['/a2a', rpc('GetTask', { id: 's3cret' }), ['200 task_not_found']],
    ['/a2a', '{"jsonrpc":"2.0",', ['400 not_json']],
    ['/a2a', [rpc('GetTask', { id: 'x' })], ['400 invalid_message']],
    ['/mcp', rpc('ping'), []],
    ['/mcp', rpc('tools/call', { name: 'get_adcp_capabilities' }), []],
  ]
  for (const [path, body, told] of cases) {
    const before = lines.length
    await post(path, body)
    const said = lines
      .slice(before)
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter(({ msg }) => msg !== 'call')
    t.same(
      said.map(({ msg, path: at, status, reason }) => [msg, at, `${status} ${reason}`]),
      told.map((one) => ['refused at the door', path, one]),
      `${path} ${JSON.stringify(body)}`,
    )
  }
  t.notMatch(lines.join(), /s3cret/)
  const counted = (await send('/metrics', {})).text
  t.match(counted, /tributary_refused_requests_total\{reason="unknown_tool"\} 3/)
  t.match(counted, /tributary_refused_requests_total\{reason="not_json"\} 2/)
})
