/** What A2A clients send beside a skill, and what is kept of an answer. */
import { test } from 'tap'
import { Type } from '../../src/adcp/schema.js'
import { createA2aTasks } from '../../src/server/transports/a2a-tasks.js'
import type { Task } from '../../src/tasks/task.js'
import { BUYER_TOKEN, startServer } from '../support/server-fixture.js'

const bearer = { authorization: `Bearer ${BUYER_TOKEN}` }
const send = (parts: object[], more: object = {}) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'SendMessage',
  params: { message: { messageId: 'm', role: 'ROLE_USER', parts }, ...more },
})
const lookup = [{ data: { skill: 'get_adcp_capabilities', input: {} } }]

/** What names a task, in both dialects. */
const OF_A_TASK = [
  'GetTask',
  'CancelTask',
  'SubscribeToTask',
  'tasks/get',
  'tasks/cancel',
  'tasks/resubscribe',
]

test('a method says whose words it is in, with a version header or without', async (t) => {
  const { post } = await startServer(t)
  const { task } = (await post('/a2a', send(lookup), bearer)).json.result
  t.equal(task.status.state, 'TASK_STATE_COMPLETED')
  const get = { jsonrpc: '2.0', id: 2, method: 'GetTask', params: { id: task.id } }
  for (const headers of [bearer, { ...bearer, 'a2a-version': '1.0' }]) {
    t.match((await post('/a2a', get, headers)).json.result, {
      id: task.id,
      status: { state: 'TASK_STATE_COMPLETED' },
    })
  }
  const legacy = (await post('/a2a', { ...get, method: 'tasks/get' }, { ...bearer, 'a2a-version': '1.0' }))
    .json
  t.match(legacy.result, { kind: 'task', status: { state: 'completed' } })
})

test('an unknown method is METHOD_NOT_FOUND, and GET says what to use', async (t) => {
  const { post, send: fetchPath } = await startServer(t)
  for (const method of ['Nothing', 'tools/call', 'constructor']) {
    const { json } = await post('/a2a', { jsonrpc: '2.0', id: 1, method, params: {} }, bearer)
    t.match(json.error, { code: -32601, message: /SendMessage/ }, method)
  }
  const got = await fetchPath('/a2a', {})
  t.match([got.status, got.headers.get('allow')], [405, 'POST'])
})

test('a task of another caller and one that never was are told in the same words, without its id', async (t) => {
  const { post } = await startServer(t)
  const { task } = (await post('/a2a', send(lookup), bearer)).json.result
  for (const method of OF_A_TASK) {
    const ask = async (id: string) =>
      (await post('/a2a', { jsonrpc: '2.0', id: 1, method, params: { id } })).json
    const missing = await ask('<script>\u001b[2J')
    t.match(missing.error, { code: -32001, message: 'Task not found' }, method)
    t.strictSame(await ask(task.id), missing, method)
  }
})

test('settings of notifications in A2A`s way are refused in its words, whatever they say', async (t) => {
  const { post } = await startServer(t)
  for (const method of ['CreateTaskPushNotificationConfig', 'tasks/pushNotificationConfig/set']) {
    for (const params of [{}, { id: 'nope' }, [1]]) {
      const { json } = await post('/a2a', { jsonrpc: '2.0', id: 1, method, params }, bearer)
      t.match(json.error, { code: -32003, message: /push_notification_config/ }, method)
    }
  }
})

test('a notification asked for in A2A`s way is refused, not ignored', async (t) => {
  const { post } = await startServer(t)
  const url = 'https://buyer.example/hook'
  for (const configuration of [
    { taskPushNotificationConfig: { url } },
    { pushNotificationConfig: { url } },
  ]) {
    const { json } = await post('/a2a', send(lookup, { configuration }), bearer)
    t.match(json.error, { code: -32003, message: /push_notification_config in the input/ })
  }
  t.ok((await post('/a2a', send(lookup, { configuration: { blocking: true } }), bearer)).json.result)
})

test('plain text is asked as a brief', async (t) => {
  const asked: unknown[] = []
  const { post } = await startServer(t, {
    discovery: {
      discover(input) {
        asked.push(input)
        return { kind: 'answer', message: 'Found.', fields: { signals: [] } }
      },
      lookup: () => Promise.reject(new Error('not a lookup')),
    },
  })
  const { task } = (await post('/a2a', send([{ text: 'signals for' }, { text: 'coffee' }]), bearer)).json
    .result
  t.equal(task.status.state, 'TASK_STATE_COMPLETED')
  t.match(task.artifacts[0].parts[0].data, { status: 'completed', signals: [] })
  t.match(asked, [{ discovery_mode: 'brief', signal_spec: 'signals for\ncoffee' }])
  const empty = (await post('/a2a', send([{ text: '  ' }]), bearer)).json.result.task
  t.equal(empty.artifacts[0].parts[0].data.adcp_error.code, 'INVALID_REQUEST')
})

test('a task that is still open says so where clients look: first part, metadata', async (t) => {
  const slow: Task = {
    name: 'slow',
    title: 'Slow',
    description: 'Is submitted.',
    request: Type.Object({}),
    mutating: false,
    handle: () => ({ kind: 'answer', status: 'submitted', message: 'Later.', fields: { task_id: 'task_1' } }),
  }
  const { post } = await startServer(t, { tasks: [slow] })
  const parts = [{ data: { skill: 'slow', input: {} } }]
  const { task } = (await post('/a2a', send(parts), bearer)).json.result
  t.match(task.artifacts, [
    { metadata: { adcp_task_id: 'task_1' }, parts: [{ data: { status: 'submitted' } }, { text: 'Later.' }] },
  ])
  const got = (
    await post('/a2a', { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: task.id } }, bearer)
  ).json
  t.match(got.result.artifacts, [
    { metadata: { adcp_task_id: 'task_1' }, parts: [{ data: { status: 'submitted' } }] },
  ])
  const message = { kind: 'message', messageId: 'm', role: 'user', parts: [{ kind: 'data', ...parts[0] }] }
  const old = await post(
    '/a2a',
    { jsonrpc: '2.0', id: 1, method: 'message/send', params: { message } },
    bearer,
  )
  t.match(old.json.result.artifacts, [
    { metadata: { adcp_task_id: 'task_1' }, parts: [{ kind: 'data' }, { kind: 'text' }] },
  ])
  const done = (await post('/a2a', send(lookup), bearer)).json.result.task
  t.equal(done.artifacts[0].metadata, undefined, 'a finished one has no task to ask for')
})

test('a kept task holds rows of its own, not the chunk they were cut from, and leaves at its time', async (t) => {
  let now = 1_000
  const tasks = createA2aTasks(() => now)
  const chunk = Buffer.from(`${' '.repeat(1_000)}{"name":"one"}`)
  const payload = {
    ...{ status: 'completed', message: 'm', contextId: 'c', head: '{"signals":[', tail: ']}' },
    isError: false,
    words: { text: () => 'm', json: () => '"m"' },
    rows: [chunk.subarray(1_000)],
    comesAgain: false,
  }
  const answered = { payload, profiled: false }
  const id = tasks.keep('buyer', answered, now)
  chunk.fill(0)
  t.match((await tasks.known('buyer', id))?.content.data, /one/)
  now += 11 * 60_000
  t.notOk(await tasks.has('buyer', id))
  tasks.keep(undefined, answered, now)
  t.same(await tasks.list('buyer', {}, { most: 100 }), { tasks: [], total: 0, next: undefined })
})

test('the newest tasks are kept, so many and no more, each for its owner', async (t) => {
  const tasks = createA2aTasks(() => 0)
  const payloadOf = (text: string, bytes = 0, comesAgain = false) => ({
    ...{ status: 'completed', message: text, contextId: 'c', head: `{"message":"${text}"`, tail: '}' },
    ...{ isError: false, words: { text: () => text, json: () => `"${text}"` }, comesAgain },
    rows: bytes === 0 ? [] : [Buffer.alloc(bytes)],
  })
  const again = payloadOf('again', 0, true)
  const ids = Array.from({ length: 2_500 }, (_, at) =>
    tasks.keep(
      at % 2 ? 'one' : 'other',
      { payload: at % 5 ? again : payloadOf(`task ${at}`), profiled: false },
      0,
    ),
  )
  t.equal(new Set(ids).size, 2_500)
  const kept = await Promise.all(ids.map((id, at) => tasks.has(at % 2 ? 'one' : 'other', id)))
  t.same([kept.indexOf(true), kept.lastIndexOf(false)], [500, 499], '2,000 stay, and the oldest went')
  t.notOk(await tasks.has('one', ids[2_498] as string))
  t.notOk(await tasks.has(undefined, ids[2_499] as string))
  t.notOk(await tasks.has('one', `${ids[2_499]}.5`))
  t.notOk(await createA2aTasks(() => 0).has('one', ids[2_499] as string))
  const nobodys = tasks.keep(undefined, { payload: again, profiled: false }, 0)
  t.notOk(await tasks.has(undefined, nobodys))
  t.notOk(await tasks.has('one', nobodys))
  t.ok(await tasks.has('other', ids[500] as string), 'whoever has no name takes nobody`s place')
  t.match(await tasks.known('other', ids[2_490] as string), { content: { contextId: 'c' } })
  for (let large = 0; large < 10; large += 1)
    tasks.keep('one', { payload: payloadOf('large', 8 * 1024 * 1024), profiled: false }, 0)
  t.ok((await tasks.list('one', {}, { most: 100 })).total < 10, 'and no more than fit')
})

test('a listing goes on behind the task that was shown last, also when that one has left', async (t) => {
  let now = 0
  const tasks = createA2aTasks(() => now)
  const payload = {
    ...{ status: 'completed', message: 'm', contextId: 'c', head: '{', tail: '}', isError: false },
    ...{ words: { text: () => 'm', json: () => '"m"' }, rows: [], comesAgain: true },
  }
  const keep = () => tasks.keep('one', { payload, profiled: false }, now)
  const alike = [keep(), keep(), keep()]
  now += 1_000
  const newest = keep()
  const first = await tasks.list('one', {}, { most: 2 })
  t.equal(first.tasks[0]?.id, newest)
  t.equal(first.total, 4)
  now += 60_000
  keep()
  const rest = await tasks.list('one', {}, { most: 2, after: first.next as NonNullable<typeof first.next> })
  t.same([...first.tasks, ...rest.tasks].map(({ id }) => id).sort(), [...alike, newest].sort(), 'each once')
  t.same([rest.total, rest.next], [5, undefined])
  now += 9 * 60_000 + 59_500
  const gone = await tasks.list('one', {}, { most: 2, after: { id: alike[0] as string, at: 2_000 } })
  t.equal(gone.tasks.length, 0, 'those behind it have left as well')
  const left = await tasks.list('one', {}, { most: 2, after: { id: 'a2a_gone', at: 120_000 } })
  t.equal(left.tasks.length, 1)
})

test('parameters of another type than A2A`s are INVALID_PARAMS, whatever they are', async (t) => {
  const { post } = await startServer(t)
  const odd: unknown[] = [
    {},
    [],
    -1,
    1e308,
    true,
    { toString: 1 },
    { id: { id: 1 } },
    ['a'],
    { ['__proto__']: 1 },
  ]
  for (const method of OF_A_TASK) {
    for (const value of odd) {
      for (const params of [{ id: value }, [value], { id: 'a', historyLength: [value] }]) {
        const { json } = await post('/a2a', { jsonrpc: '2.0', id: 1, method, params }, bearer)
        t.equal(json.error?.code, -32602, `${method} ${JSON.stringify(params)}: ${JSON.stringify(json)}`)
      }
    }
  }
  for (const params of [
    { pageSize: 'x' },
    { pageToken: {} },
    { pageToken: 'x' },
    { pageToken: Buffer.from('x|y').toString('base64url') },
    { contextId: [] },
    { includeArtifacts: 'no' },
  ]) {
    const { json } = await post('/a2a', { jsonrpc: '2.0', id: 1, method: 'ListTasks', params }, bearer)
    t.equal(json.error?.code, -32602, JSON.stringify(params))
  }
})

test('a version is named by its major and its minor, in the header or in the query (A2A 1.0, section 3.6)', async (t) => {
  const { post } = await startServer(t)
  const code = async (path: string, headers: Record<string, string> = {}) =>
    (await post(path, send(lookup), { ...bearer, ...headers })).json.error?.code
  for (const version of ['', '1.0', '1.0.0', '1.0.17', '0.3', '0.3.0']) {
    t.equal(await code('/a2a', { 'a2a-version': version }), undefined, `header ${version}`)
    t.equal(await code(`/a2a?A2A-Version=${version}`), undefined, `query ${version}`)
  }
  for (const version of ['1', '1.1', '1.00', '1.0.', '1.0.x', '2.0', '0.2.6', '1.0,1.0', 'x']) {
    t.equal(await code('/a2a', { 'a2a-version': version }), -32009, `header ${version}`)
    t.equal(await code(`/a2a?A2A-Version=${version}`), -32009, `query ${version}`)
  }
  t.equal(await code('/a2a?A2A-Version=2.0', { 'a2a-version': '1.0' }), undefined, 'the header speaks')
})

test('an error of A2A says in 1.0 which one it is, as those of the official handlers do', async (t) => {
  const { post } = await startServer(t)
  const { id } = (await post('/a2a', send(lookup), bearer)).json.result.task
  const ask = async (method: string, params: object, headers: Record<string, string> = {}) =>
    (await post('/a2a', { jsonrpc: '2.0', id: 1, method, params }, { ...bearer, ...headers })).json.error
  const going = (taskId: string) => ({ message: { messageId: 'm', taskId, parts: lookup } })
  const info = (reason: string) => [
    { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'a2a-protocol.org' },
  ]
  for (const [method, params, code, reason] of [
    ['GetTask', { id: 'none' }, -32001, 'TASK_NOT_FOUND'],
    ['SendMessage', going('none'), -32001, 'TASK_NOT_FOUND'],
    ['SendStreamingMessage', going(id), -32004, 'UNSUPPORTED_OPERATION'],
    ['ListTaskPushNotificationConfigs', {}, -32003, 'PUSH_NOTIFICATION_NOT_SUPPORTED'],
  ] as const) {
    t.match(await ask(method, params), { code, data: info(reason) }, method)
  }
  t.same((await ask('GetTask', { id }, { 'a2a-version': '2.0' })).data, info('VERSION_NOT_SUPPORTED'))
  for (const [method, params] of [
    ['tasks/get', { id: 'none' }],
    ['message/send', going(id)],
    ['tasks/pushNotificationConfig/list', {}],
  ] as const) {
    t.equal((await ask(method, params)).data, undefined, `${method} is of 0.3, which has no such data`)
  }
})

test('every method takes every id of JSON-RPC, and gives it back as it came', async (t) => {
  const { post } = await startServer(t)
  const { task } = (await post('/a2a', send(lookup), bearer)).json.result
  for (const id of ['0', '-1', '1.5', '0.10', '12345678901234567890', '1E400', '"a"', '""'])
    for (const method of ['GetTask', 'tasks/get']) {
      const body = `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":{"id":"${task.id}"}}`
      const { text, json } = await post('/a2a', body, bearer)
      t.equal(json.error, undefined, `${method} ${id}`)
      t.ok(text.startsWith(`{"jsonrpc":"2.0","id":${id},`), `${method} ${id}`)
    }
})

test('a task that is read again has the data that was sent, byte for byte', async (t) => {
  const { post } = await startServer(t)
  const context = '{ "id":12345678901234567890, "n":1.0, "n":1e400, "t":"\\u00e9\\/$&" }'
  const asked = `{"skill":"get_adcp_capabilities","input":{"context":${context}}}`
  const message = `{"messageId":"m","role":"ROLE_USER","parts":[{"data":${asked}}]}`
  const body = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":${message}}}`
  const sent = await post('/a2a', body, bearer)
  const dataOf = (text: string) =>
    text.slice(text.indexOf('"data":{'), text.search(/\},\{"(?:text|kind)":"?/))
  t.ok(dataOf(sent.text).includes(`"context":${context}`), 'as it was sent')
  const { id } = sent.json.result.task
  for (const [method, params] of [
    ['GetTask', { id }],
    ['ListTasks', { includeArtifacts: true }],
    ['tasks/get', { id }],
  ] as const) {
    const { text, json } = await post('/a2a', { jsonrpc: '2.0', id: 1, method, params }, bearer)
    t.ok(json?.result, method)
    t.equal(dataOf(text), dataOf(sent.text), method)
  }
})
