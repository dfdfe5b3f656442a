/** Requests that activate the protocol's profile of A2A are held to it, and their answers confirm it. */
import { Role } from '@a2a-js/sdk'
import {
  ClientFactory,
  JsonRpcTransportFactory,
  ServiceParameters,
  withA2AExtensions,
} from '@a2a-js/sdk/client'
import { test } from 'tap'
import { Type } from '../../src/adcp/schema.js'
import type { Task } from '../../src/tasks/task.js'
import { BUYER_TOKEN, startServer } from '../support/server-fixture.js'

const PROFILE = 'https://adcontextprotocol.org/extensions/adcp/v3'
const bearer = { authorization: `Bearer ${BUYER_TOKEN}`, 'a2a-version': '1.0' }
const activated = { ...bearer, 'a2a-extensions': `https://other.example/x, ${PROFILE}` }
const data = { skill: 'get_adcp_capabilities', input: {} }

const message = (parts: object[], method = 'SendMessage') => ({
  ...{ jsonrpc: '2.0', id: 1, method },
  params: { message: { messageId: 'm', role: 'ROLE_USER', parts } },
})

test('one data part with skill and input is answered, texts beside it are not read', async (t) => {
  const { post } = await startServer(t)
  const texts = [{ text: 'signals for cars' }, { data }, { text: '{"skill":"list_tasks"}' }]
  for (const parts of [[{ data }], texts]) {
    const { json, headers } = await post('/a2a', message(parts), activated)
    t.equal(headers.get('a2a-extensions'), PROFILE, 'the answer confirms the profile')
    t.match(headers.get('vary'), /A2A-Extensions/)
    t.match(json.result.task.artifacts[0].parts[0].data, {
      status: 'completed',
      supported_protocols: ['signals'],
    })
  }
  const stream = await post('/a2a', message([{ data }], 'SendStreamingMessage'), activated)
  t.equal(stream.headers.get('a2a-extensions'), PROFILE)
})

test('what could be read in its place is refused in A2A`s words', async (t) => {
  const { post } = await startServer(t)
  const { skill } = data
  const wrong = {
    'parameters for input': [{ data: { skill, parameters: {} } }],
    'both names of the input': [{ data: { ...data, parameters: {} } }],
    'no input': [{ data: { skill } }],
    'an input that is no object': [{ data: { skill, input: [] } }],
    'no skill': [{ data: { input: {} } }],
    'two data parts': [{ data }, { data }],
    'a file beside it': [{ data }, { url: 'https://files.example/x' }],
    'text alone': [{ text: 'signals for cars' }],
    'an unknown skill': [{ data: { skill: 'get_signal', input: {} } }],
  }
  for (const [name, parts] of Object.entries(wrong)) {
    const { json, headers } = await post('/a2a', message(parts), activated)
    t.match(json.error, { code: -32602 }, name)
    t.equal(headers.get('a2a-extensions'), PROFILE, name)
  }
  t.match(
    (await post('/a2a', message(wrong['an unknown skill']), activated)).json.error.message,
    /get_signals/,
  )
})

test('clients that do not activate it are served as ever', async (t) => {
  const { post } = await startServer(t)
  const { json, headers } = await post(
    '/a2a',
    message([{ data: { skill: data.skill, parameters: {} } }]),
    bearer,
  )
  t.match(json.result.task.status.state, 'TASK_STATE_COMPLETED')
  t.equal(headers.get('a2a-extensions'), null)
  const legacy = { kind: 'message', messageId: 'm', role: 'user' }
  const parts = [{ kind: 'data', data: { skill: data.skill, parameters: {} } }]
  const older = { jsonrpc: '2.0', id: 1, method: 'message/send', params: { message: { ...legacy, parts } } }
  const { json: answer } = await post('/a2a', older, { ...activated, 'a2a-version': '' })
  t.match(answer.result, { kind: 'task', status: { state: 'completed' } }, '0.3 has no such profile')
})

const submits: Task = {
  ...{ name: 'activate_signal', title: 'Activate', description: 'Activates.', mutating: true },
  request: Type.Object({}),
  handle: () => ({
    ...{ kind: 'answer', status: 'submitted', message: 'Under way.' },
    fields: { task_id: 'task_open' },
  }),
}

test('the handle of an open task stands in the data alone', async (t) => {
  const { post } = await startServer(t, { tasks: [submits] })
  const ask = message([{ data: { skill: 'activate_signal', input: {} } }])
  const open = { artifacts: [{ parts: [{ data: { status: 'submitted', task_id: 'task_open' } }] }] }
  const { task } = (await post('/a2a', ask, activated)).json.result
  t.match(task, open)
  t.notOk('metadata' in task.artifacts[0])
  const get = { jsonrpc: '2.0', id: 2, method: 'GetTask', params: { id: task.id } }
  const again = (await post('/a2a', get, activated)).json.result
  t.match(again, open)
  t.notOk(again.artifacts[0].metadata?.adcp_task_id)
  t.match((await post('/a2a', ask, bearer)).json.result.task.artifacts[0].metadata, {
    adcp_task_id: 'task_open',
  })
})

test('the official client activates it', async (t) => {
  const { url, send } = await startServer(t)
  let confirmed: string | null = null
  const fetchImpl: typeof fetch = async (where, init) => {
    const headers = new Headers(init?.headers)
    headers.set('authorization', bearer.authorization)
    const here = String(where).replace('http://tributary.example', url)
    const reply = await fetch(here, { ...init, headers })
    confirmed = reply.headers.get('a2a-extensions')
    return reply
  }
  const card = (await send('/.well-known/agent-card.json', {})).json
  t.match(card.capabilities.extensions, [{ uri: PROFILE, required: false }])
  const transports = [new JsonRpcTransportFactory({ fetchImpl })]
  const client = await new ClientFactory({ transports }).createFromUrl(url)
  const part = { content: { $case: 'data' as const, value: data }, metadata: {}, filename: '', mediaType: '' }
  const sent = {
    ...{ messageId: 'm', role: Role.ROLE_USER, parts: [part], contextId: '', taskId: '' },
    ...{ extensions: [], referenceTaskIds: [], metadata: {} },
  }
  const request = { message: sent, tenant: '', metadata: {}, configuration: undefined }
  const serviceParameters = ServiceParameters.create(withA2AExtensions(PROFILE))
  const answer = await client.sendMessage(request, { serviceParameters })
  t.match(answer, { artifacts: [{ parts: [{ content: { value: { status: 'completed' } } }] }] })
  t.equal(confirmed, PROFILE)
})
