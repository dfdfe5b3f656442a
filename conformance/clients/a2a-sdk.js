/** What the official A2A clients make of an answer, 0.3 and 1.x: the task's state, its text, its data part. */
import { A2AClient } from '@a2a-js/sdk/client'
import { Role } from '@a2a-js/sdk-1'
import { ClientFactory, JsonRpcTransportFactory } from '@a2a-js/sdk-1/client'

const authorized = (key) => (where, init) => {
  const headers = new Headers(init?.headers)
  headers.set('authorization', `Bearer ${key}`)
  return fetch(where, { ...init, headers })
}

/** One reading for both: a refusal is an A2A failure, everything else, what is told of a failed task too, an A2A task that is completed. */
function reading(state, texts, datas) {
  const data = datas.at(-1)
  if (datas.length !== 1) throw new Error(`${datas.length} data parts`)
  if ((state === 'failed') !== (data.adcp_error !== undefined))
    throw new Error(`state ${state} for ${data.status}`)
  return {
    status: data.status,
    code: data.adcp_error?.code,
    taskId: data.task_id,
    text: texts.join('\n'),
    data,
  }
}

export const A2A_0_3 = {
  name: '@a2a-js/sdk 0.3',
  transport: 'a2a',
  async open(url, key) {
    const card = `${url}/.well-known/agent-card.json`
    const client = await A2AClient.fromCardUrl(card, { fetchImpl: authorized(key) })
    async function send(part) {
      const message = { kind: 'message', messageId: crypto.randomUUID(), role: 'user', parts: [part] }
      const { result, error } = await client.sendMessage({ message })
      if (error) throw new Error(`JSON-RPC error ${error.code}: ${error.message}`)
      const told = result.artifacts.flatMap((artifact) => artifact.parts)
      const texts = told.filter(({ kind }) => kind === 'text').map(({ text }) => text)
      const datas = told.filter(({ kind }) => kind === 'data').map(({ data }) => data)
      const again = await client.getTask({ id: result.id })
      if (again.result?.id !== result.id) throw new Error('tasks/get does not know the task')
      return reading(result.status.state, texts, datas)
    }
    const ask = (skill, parameters) => send({ kind: 'data', data: { skill, parameters } })
    const say = (text) => send({ kind: 'text', text })
    return { ask, say, readsText: true, close: async () => {} }
  },
}

// A2A 1.0, TaskState
const STATES = ['unspecified', 'submitted', 'working', 'completed', 'failed']

export const A2A_1 = {
  name: '@a2a-js/sdk 1.x',
  transport: 'a2a',
  async open(url, key) {
    const factory = new ClientFactory({
      transports: [new JsonRpcTransportFactory({ fetchImpl: authorized(key) })],
    })
    const client = await factory.createFromUrl(url)
    async function send(content) {
      const part = { content, metadata: {}, filename: '', mediaType: '' }
      const message = {
        messageId: crypto.randomUUID(),
        role: Role.ROLE_USER,
        parts: [part],
        contextId: '',
        taskId: '',
        extensions: [],
        referenceTaskIds: [],
        metadata: {},
      }
      const task = await client.sendMessage({ message, tenant: '', metadata: {}, configuration: undefined })
      const told = task.artifacts.flatMap((artifact) => artifact.parts.map(({ content }) => content))
      const texts = told.filter(({ $case }) => $case === 'text').map(({ value }) => value)
      const datas = told.filter(({ $case }) => $case === 'data').map(({ value }) => value)
      return reading(STATES[task.status.state], texts, datas)
    }
    const ask = (skill, input) => send({ $case: 'data', value: { skill, input } })
    const say = (text) => send({ $case: 'text', value: text })
    return { ask, say, readsText: true, close: async () => {} }
  },
}
