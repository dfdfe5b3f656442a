import { AgentCard, Role, SendMessageRequest, TaskState } from '@a2a-js/sdk'
import { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory } from '@a2a-js/sdk/client'
import { test } from 'tap'
import { BUYER_TOKEN, OTHER_TOKEN, startServer } from '../support/server-fixture.js'

const input = {
  discovery_mode: 'wholesale',
  pagination: { max_results: 3 },
  context: { n: 1 },
  context_id: 'c1',
}
const bearer = { authorization: `Bearer ${BUYER_TOKEN}` }
const current = { ...bearer, 'a2a-version': '1.0' }

function send10(data: object, method = 'SendMessage', more: object = {}) {
  const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ data }], ...more }
  return { jsonrpc: '2.0', id: 'r1', method, params: { message } }
}

function send03(data: object, method = 'message/send') {
  const message = { kind: 'message', messageId: 'm', role: 'user', parts: [{ kind: 'data', data }] }
  return { jsonrpc: '2.0', id: 7, method, params: { message } }
}

/** The text of the data part, as it stood on the wire. */
function dataText(text: string): string {
  const from = text.indexOf('"data":{"status"') + 7
  return text.slice(from, text.lastIndexOf(text.includes('"kind":"text"') ? '},{"kind":"text"' : '},{"text"'))
}

test('the payload is the same bytes over MCP and over both versions of A2A', async (t) => {
  const { post } = await startServer(t)
  const call = { name: 'get_signals', arguments: input }
  const mcp = await post(
    '/mcp',
    { jsonrpc: '2.0', id: 1, method: 'tools/call', params: call },
    { ...bearer, 'mcp-protocol-version': '2025-06-18' },
  )
  const flat = mcp.text.slice(mcp.text.indexOf('"structuredContent":') + 20, -2)
  const v10 = await post('/a2a', send10({ skill: 'get_signals', input }), current)
  const v03 = await post('/a2a', send03({ skill: 'get_signals', parameters: input }), bearer)
  t.equal(dataText(v10.text), flat)
  t.equal(dataText(v03.text), flat)
  t.same(JSON.parse(flat).signals.length, 3)
})

test('each version gets its own shape of task, with one artifact', async (t) => {
  const { post } = await startServer(t)
  const v10 = (await post('/a2a', send10({ skill: 'get_signals', input }), current)).json
  t.equal(v10.id, 'r1')
  t.equal(v10.result.task.status.state, 'TASK_STATE_COMPLETED')
  t.equal(v10.result.task.artifacts.length, 1)
  t.same(v10.result.task.artifacts[0].parts.map(Object.keys), [['data'], ['text']])
  const v03 = (await post('/a2a', send03({ skill: 'get_signals', input }), bearer)).json
  t.equal(v03.id, 7)
  t.equal(v03.result.kind, 'task')
  t.equal(v03.result.status.state, 'completed')
  t.equal(v03.result.artifacts[0].parts[0].kind, 'data')
})

test('a failure is a failed task with the error in its data part', async (t) => {
  const { post } = await startServer(t)
  for (const data of [{ skill: 'get_signals', input: {} }, { skill: 'no_such_skill' }, { words: 'hello' }]) {
    const { task } = (await post('/a2a', send10(data), current)).json.result
    t.equal(task.status.state, 'TASK_STATE_FAILED')
    t.equal(task.artifacts[0].parts[0].data.adcp_error.code, 'INVALID_REQUEST')
    t.equal(task.artifacts[0].parts[0].data.status, 'failed')
  }
})

test('the official client discovers the agent, sends, streams, gets, lists and is refused a cancel', async (t) => {
  const { url, post } = await startServer(t)
  const card = AgentCard.fromJSON(await (await fetch(`${url}/a2a/.well-known/agent-card.json`)).json())
  for (const one of card.supportedInterfaces) one.url = `${url}/a2a`
  const authorized: typeof fetch = (where, init) =>
    fetch(where, { ...init, headers: { ...Object.fromEntries(new Headers(init?.headers)), ...bearer } })
  const transports = [new JsonRpcTransportFactory({ fetchImpl: authorized })]
  const factory = new ClientFactory(
    ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { transports }),
  )
  const client = await factory.createFromAgentCard(card)
  const request = SendMessageRequest.fromJSON({
    message: { messageId: 'm', role: 'ROLE_USER', parts: [{ data: { skill: 'get_signals', input } }] },
  })
  t.equal(request.message?.role, Role.ROLE_USER)
  const sent = await client.sendMessage(request)
  if (!('status' in sent)) return t.fail('a task was expected')
  t.equal(sent.status?.state, TaskState.TASK_STATE_COMPLETED)
  const got = await client.getTask({ tenant: '', id: sent.id, historyLength: undefined })
  t.same(got.artifacts, sent.artifacts)
  await t.rejects(client.cancelTask({ tenant: '', id: sent.id, metadata: undefined }), /cancel/i)
  const kinds: string[] = []
  for await (const event of client.sendMessageStream(request)) kinds.push(event.payload?.$case ?? '')
  t.same(kinds, ['task'])
  const list = { jsonrpc: '2.0', id: 1, method: 'ListTasks', params: { contextId: 'c1' } }
  const listed = (await post('/a2a', list, current)).json.result
  t.equal(listed.tasks.length, 2)
})

test('ListTasks reads all kept tasks: by filters, and page by page', async (t) => {
  const { post } = await startServer(t)
  const ask = async (method: string, params: object) =>
    (await post('/a2a', { jsonrpc: '2.0', id: 1, method, params }, current)).json.result
  const begin = async (skill: string, contextId: string) => {
    const message = { messageId: 'm', role: 'ROLE_USER', contextId, parts: [{ data: { skill, input: {} } }] }
    return (await ask('SendMessage', { message })).task
  }
  const failed = await begin('get_signals', 'early')
  t.equal(failed.status.state, 'TASK_STATE_FAILED')
  const ids = [failed.id]
  for (let at = 0; at < 130; at += 1) ids.push((await begin('get_adcp_capabilities', 'later')).id)
  const wanted = { status: 'TASK_STATE_FAILED', contextId: 'early' }
  t.match(await ask('ListTasks', wanted), { tasks: [{ id: failed.id }], totalSize: 1, nextPageToken: '' })
  t.match(await ask('ListTasks', { contextId: 'later', pageSize: 1 }), { totalSize: 130 })
  t.match(await ask('ListTasks', { status: 'TASK_STATE_WORKING' }), { tasks: [], totalSize: 0 })
  const since = { statusTimestampAfter: failed.status.timestamp }
  t.match(await ask('ListTasks', since), { totalSize: 131 }, 'that moment is among them')
  for (const pageSize of [7, 50, 100, undefined]) {
    const got: string[] = []
    let pageToken: string | undefined
    do {
      const page = await ask('ListTasks', { pageSize, pageToken })
      t.match([page.totalSize, page.pageSize], [131, pageSize ?? 50])
      got.push(...page.tasks.map(({ id }: { id: string }) => id))
      pageToken = page.nextPageToken
    } while (pageToken)
    t.same(got.toSorted(), ids.toSorted(), `${pageSize}`)
  }
})

test('a task is visible to its owner only, and a foreign one looks like none', async (t) => {
  const { post } = await startServer(t)
  const { task } = (await post('/a2a', send10({ skill: 'get_signals', input }), current)).json.result
  const other = { authorization: `Bearer ${OTHER_TOKEN}`, 'a2a-version': '1.0' }
  const get = (id: string, headers: Record<string, string>) =>
    post('/a2a', { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id } }, headers)
  t.equal((await get(task.id, current)).json.result.id, task.id)
  const unknown = `a2a_${'x'.repeat(task.id.length - 4)}`
  const foreign = await get(task.id, other)
  t.equal(foreign.json.error.code, -32001)
  t.equal(foreign.text.replaceAll(task.id, unknown), (await get(unknown, other)).text)
  t.equal(
    (await get(task.id, { 'a2a-version': '1.0' })).json.error.code,
    -32001,
    'nor to an anonymous caller',
  )
})

test('0.3 streams, gets and cancels in its own words', async (t) => {
  const { post } = await startServer(t)
  const stream = await post('/a2a', send03({ skill: 'get_signals', input }, 'message/stream'), bearer)
  t.match(stream.headers.get('content-type'), /text\/event-stream/)
  const event = JSON.parse(stream.text.slice(6))
  t.equal(event.result.kind, 'task')
  const ask = (method: string) =>
    post('/a2a', { jsonrpc: '2.0', id: 1, method, params: { id: event.result.id } }, bearer)
  const got = (await ask('tasks/get')).json.result
  t.same(
    [got.id, got.status.state, got.artifacts[0].parts[0].data.signals.length],
    [event.result.id, 'completed', 3],
  )
  t.equal((await ask('tasks/cancel')).json.error.code, -32002)
  t.equal((await ask('tasks/pushNotificationConfig/get')).json.error.code < 0, true)
})

test('a message that continues a task, an unknown version and a missing message are protocol errors', async (t) => {
  const { post } = await startServer(t)
  const skill = { skill: 'get_signals', input }
  t.equal(
    (await post('/a2a', send10(skill, 'SendMessage', { taskId: 'x' }), current)).json.error.code,
    -32001,
    'no such task',
  )
  const { id: taskId } = (await post('/a2a', send10(skill), current)).json.result.task
  t.equal(
    (await post('/a2a', send10(skill, 'SendMessage', { taskId }), current)).json.error.code,
    -32004,
    'a finished one',
  )
  t.equal((await post('/a2a', send10(skill), { ...bearer, 'a2a-version': '2.0' })).json.error.code, -32009)
  t.equal(
    (await post('/a2a', { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: {} }, current)).json.error
      .code,
    -32602,
  )
  t.equal(
    (await post('/a2a', { jsonrpc: '2.0', id: 1, method: 'Nothing', params: {} }, current)).json.error.code,
    -32601,
  )
})

test('the card is public at every path clients try, and holds both versions', async (t) => {
  const { send } = await startServer(t, { callers: { anonymous: 'deny', keys: [] } })
  for (const path of ['/.well-known/agent-card.json', '/.well-known/agent.json']) {
    for (const base of ['', '/a2a']) {
      const { status, json } = await send(base + path, {})
      t.equal(status, 200)
      t.equal(json.protocolVersion, '0.3.0')
      t.equal(json.url, 'http://tributary.example/a2a')
      t.same(
        json.supportedInterfaces.map((one: { protocolVersion: string }) => one.protocolVersion),
        ['1.0', '0.3'],
      )
      t.ok(json.skills.some((skill: { id: string }) => skill.id === 'get_signals'))
    }
  }
})
