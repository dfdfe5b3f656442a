import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {
  DEFAULT_NEGOTIATED_PROTOCOL_VERSION,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/sdk/types.js'
import { test } from 'tap'
import { Type } from '../../src/adcp/schema.js'
import type { Task } from '../../src/tasks/task.js'
import { BUYER_TOKEN, startServer } from '../support/server-fixture.js'

const ping = (id: unknown = 1) => ({ jsonrpc: '2.0', id, method: 'ping' })
const tool = (id: unknown, name = 'get_adcp_capabilities') => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: {} },
})

test('the official client initializes, lists and calls', async (t) => {
  const { url } = await startServer(t)
  const requestInit = { headers: { authorization: `Bearer ${BUYER_TOKEN}` } }
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit }) as never)
  t.equal(client.getServerVersion()?.name, 'tributary')
  const { tools } = await client.listTools()
  t.same(
    tools.map((one) => one.name),
    ['get_adcp_capabilities', 'get_protocol_capabilities', 'get_signals'],
  )
  for (const one of tools) t.ok((one.description ?? '').length > 80, `${one.name} says how to use it`)
  const args = { discovery_mode: 'wholesale', pagination: { max_results: 2 } }
  const { structuredContent, isError } = await client.callTool({ name: 'get_signals', arguments: args })
  t.notOk(isError)
  t.equal((structuredContent as { signals: unknown[] }).signals.length, 2)
  t.equal((await client.callTool({ name: 'get_signals', arguments: {} })).isError, true)
  await t.rejects(client.callTool({ name: 'nothing', arguments: {} }), /not the name of a tool/)
  await client.ping()
  await client.close()
})

test('a newer client is told to fall back', async (t) => {
  const { post } = await startServer(t)
  const discover = { jsonrpc: '2.0', id: 1, method: 'server/discover', params: {} }
  t.equal((await post('/mcp', discover, { 'mcp-protocol-version': '2026-07-28' })).status, 400)
  t.equal((await post('/mcp', discover)).json.error.code, -32601)
})

test('the revisions are those of the official server, which is not loaded to know them', async (t) => {
  const { post } = await startServer(t)
  const of = (revision?: string) =>
    post('/mcp', tool(1), revision ? { 'mcp-protocol-version': revision } : {})
  const refused = await of('2024-01-01')
  t.equal(refused.status, 400)
  const named = refused.json.error.message.split(': ')[1].split(', ')
  t.same(named, SUPPORTED_PROTOCOL_VERSIONS)
  const text = async (revision?: string) => (await of(revision)).json.result.content[0].text
  t.equal(typeof JSON.parse(await text(DEFAULT_NEGOTIATED_PROTOCOL_VERSION)), 'object', 'the payload as JSON')
  t.equal(Object.keys(JSON.parse(await text())).length > 1, true, 'and so without a revision')
})

test('an id of every legal type goes back as it came', async (t) => {
  const { post } = await startServer(t)
  for (const id of ['"a"', '""', '"\\u0041\\n"', '0', '-1', '1.5', '12345678901234567890']) {
    for (const method of ['"ping"', '"tools/call","params":{"name":"get_adcp_capabilities"}', '"nothing"']) {
      const { text } = await post('/mcp', `{"jsonrpc":"2.0","id":${id},"method":${method}}`)
      const given = /"id":("(?:[^"\\]|\\.)*"|[-\d.]+)/.exec(text)?.[1]
      t.same(given?.startsWith('"') ? JSON.parse(given) : given, id.startsWith('"') ? JSON.parse(id) : id)
    }
  }
  for (const id of [null, true, {}, []]) {
    const { status, json } = await post('/mcp', ping(id))
    t.equal(status, 400)
    t.same(json, {
      jsonrpc: '2.0',
      id: null,
      error: { code: -32600, message: 'id must be a string or a number' },
    })
  }
})

test('notifications and answers are taken without a word', async (t) => {
  const { post } = await startServer(t)
  for (const body of [
    { jsonrpc: '2.0', method: 'notifications/initialized' },
    { jsonrpc: '2.0', id: 1, result: {} },
    [{ jsonrpc: '2.0', method: 'notifications/initialized' }],
  ]) {
    const { status, text } = await post('/mcp', body)
    t.equal(status, 202)
    t.equal(text, '')
  }
})

test('a batch is answered message by message to clients that may send one', async (t) => {
  const { post } = await startServer(t)
  const batch = [ping('a'), tool('b'), tool('c', 'none'), { jsonrpc: '2.0', method: 'notifications/x' }, 7]
  const { status, json } = await post('/mcp', batch)
  t.equal(status, 200)
  t.same(
    json.map((one: { id: unknown; error?: { code: number } }) => [one.id, one.error?.code]),
    [
      ['a', undefined],
      ['b', undefined],
      ['c', -32602],
      [null, -32600],
    ],
  )
  t.equal((await post('/mcp', batch, { 'mcp-protocol-version': '2025-06-18' })).status, 400)
  t.equal((await post('/mcp', [])).status, 400)
  t.equal(
    (
      await post(
        '/mcp',
        Array.from({ length: 51 }, () => ping()),
      )
    ).status,
    400,
  )
})

test('initialize is in no batch, and lets no other message by', async (t) => {
  const { post } = await startServer(t)
  const params = { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'c', version: '1' } }
  const initialize = { jsonrpc: '2.0', id: 1, method: 'initialize', params }
  for (const revision of ['2025-03-26', '1999-01-01']) {
    const headers = { 'mcp-protocol-version': revision }
    t.equal((await post('/mcp', [initialize, ping()], headers)).status, 400, revision)
    t.equal((await post('/mcp', initialize, headers)).status, 200, `${revision}, alone`)
  }
})

test('others are answered between the messages of a batch', async (t) => {
  const order: string[] = []
  const note: Task = {
    ...{ name: 'note', title: 'Note', description: 'Notes.', mutating: false },
    request: Type.Object({ from: Type.String() }),
    handle(input) {
      order.push((input as { from: string }).from)
      return { kind: 'answer', message: 'Noted.', fields: {} }
    },
  }
  const { post } = await startServer(t, { tasks: [note] })
  const from = (name: string) => ({
    ...tool(name, 'note'),
    params: { name: 'note', arguments: { from: name } },
  })
  const names = Array.from({ length: 50 }, (_, at) => String(at))
  const batch = post('/mcp', names.map(from))
  const others = Array.from({ length: 10 }, () => post('/mcp', from('other')))
  t.equal((await batch).json.length, 50)
  await Promise.all(others)
  t.same(
    order.filter((name) => name !== 'other'),
    names,
    'the messages began in their order',
  )
  t.ok(order.lastIndexOf('49') > order.indexOf('other'), 'the others did not wait for all of them')
})

test('HTTP rules: method, media types, versions, origins and hosts', async (t) => {
  const { post, send, raw, url } = await startServer(t)
  for (const method of ['GET', 'DELETE', 'PUT', 'PATCH'])
    for (const path of ['/mcp', '/a2a']) {
      const { status, headers } = await send(path, { method })
      t.match([status, headers.get('allow')], [405, 'POST'], `${method} ${path}`)
    }
  t.equal((await post('/mcp', ping(), { accept: 'text/event-stream' })).status, 406)
  t.equal((await post('/mcp', ping(), { accept: 'application/json' })).status, 200)
  for (const [accept, status] of [
    ['application/json;q=0, text/event-stream', 406],
    ['*/*, application/json; q=0.000', 406],
    ['application/*;q=0, Application/JSON;q=0.1', 200],
    ['text/html, application/json;charset=utf-8', 200],
    ['application/jsonl', 406],
  ] as const)
    t.equal((await post('/mcp', ping(), { accept })).status, status, accept)
  t.equal((await post('/mcp', ping(), { accept: '*/*' })).status, 200)
  const typed = await post('/mcp', JSON.stringify(ping()), { 'content-type': 'text/plain' })
  t.match([typed.status, typed.headers.get('accept')], [415, 'application/json'])
  const encoded = await post('/mcp', ping(), { 'content-encoding': 'gzip' })
  t.match([encoded.status, encoded.headers.get('accept-encoding')], [415, 'identity'])
  t.equal((await post('/mcp', ping(), { 'content-encoding': 'Identity' })).status, 200)
  t.equal((await post('/mcp', ping(), { 'mcp-protocol-version': '1999-01-01' })).status, 400)
  t.equal((await post('/mcp', ping(), { origin: 'https://evil.example' })).status, 403)
  t.equal((await post('/mcp', ping(), { origin: 'null' })).status, 403)
  t.equal((await post('/mcp', ping(), { origin: 'http://tributary.example' })).status, 200)
  t.equal((await post('/mcp', ping(), { origin: 'http://localhost:6274' })).status, 200)
  const body = JSON.stringify(ping())
  const status = async (host: string) => {
    const head = `POST /mcp HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\nContent-Type: application/json`
    return (await raw(`${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`)).split(' ')[1]
  }
  t.equal(await status('evil.example'), '403', 'a rebound name')
  t.equal(await status('tributary.example'), '200')
  t.equal(await status(new URL(url).host), '200')
  t.equal(await status('localhost:1'), '200')
  t.equal(await status('tributary.example:8443'), '200', 'our own name behind another port')
  t.equal(await status('agent.localhost'), '200')
  t.equal(await status('localhost.evil.example'), '403')
})
