/** A person's words over A2A, and over MCP, are a brief: what was read from them is told, in both versions' words. */
import { randomUUID } from 'node:crypto'
import { Role, type Task } from '@a2a-js/sdk'
import { ClientFactory, JsonRpcTransportFactory } from '@a2a-js/sdk/client'
import { test } from 'tap'
import { type Answer, BUYER, startWorld } from '../support/federation.js'

const TEXT = 'signals for EV intenders in Germany'
/** Questions, what is read from each beside its subject, and how the message says it. */
const READ: readonly [signal_spec: string, read_as: object, said: RegExp][] = [
  ['EV intenders in Germny', { countries: ['DE'] }, /Read as: countries DE\./],
  ['EV intenders Deutschland', { countries: ['DE'] }, /Read as: countries DE\./],
  ['coffee, last 30 days', { lookback_days: [30] }, /last 30 days/],
  ['coffee, CPM under 2 USD', { max_cpm: { amount: 2, currency: 'USD' } }, /CPM up to 2 USD/],
  ['cybersecurity on DV360', { platforms: ['dv360'] }, /destinations dv360/],
]

const bearer = { authorization: `Bearer ${BUYER}` }

type Part = { kind: string; text?: string; data?: Answer }
type OldTask = { kind: string; status: { state: string }; artifacts: { parts: Part[] }[] }

const fetchImpl = (url: string | URL | Request, init?: RequestInit) => {
  const headers = new Headers(init?.headers)
  headers.set('authorization', bearer.authorization)
  return fetch(url, { ...init, headers })
}

/** With the official client of 1.0. */
async function askNow(url: string): Promise<{ text: string; data: Answer }> {
  const factory = new ClientFactory({ transports: [new JsonRpcTransportFactory({ fetchImpl })] })
  const client = await factory.createFromUrl(url)
  const part = { content: { $case: 'text' as const, value: TEXT }, metadata: {}, filename: '', mediaType: '' }
  const empty = { contextId: '', taskId: '', extensions: [], referenceTaskIds: [], metadata: {} }
  const message = { ...empty, messageId: randomUUID(), role: Role.ROLE_USER, parts: [part] }
  const task = (await client.sendMessage({
    message,
    tenant: '',
    metadata: {},
    configuration: undefined,
  })) as Task
  const [data, text] = task.artifacts[0]?.parts.map(({ content }) => content?.value) ?? []
  return { text: String(text), data: data as Answer }
}

/** In the words of 0.3, which other clients of it send. */
async function askOld(url: string): Promise<{ text: string; data: Answer }> {
  const message = { kind: 'message', messageId: 'm', role: 'user', parts: [{ kind: 'text', text: TEXT }] }
  const reply = await fetch(`${url}/a2a`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...bearer },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'message/send', params: { message } }),
  })
  const { result } = (await reply.json()) as { result: OldTask }
  const [data, text] = result.artifacts[0]?.parts ?? []
  if (result.status.state !== 'completed' || text?.kind !== 'text' || data?.kind !== 'data')
    throw new Error(JSON.stringify(result))
  return { text: String(text.text), data: data.data as Answer }
}

test('a question in plain text is asked as a brief, and says what was read from it', async (t) => {
  const world = await startWorld({ signals: 48 })
  t.teardown(() => world.close())
  const { url } = world.federation
  const overMcp = async () => {
    const data = await world.call('get_signals', { signal_spec: TEXT })
    return { text: String(data.message), data }
  }
  for (const [way, ask] of Object.entries({
    askNow: () => askNow(url),
    askOld: () => askOld(url),
    overMcp,
  })) {
    const { text, data } = await ask()
    t.match(data, { status: 'completed', ext: { tributary: { read_as: { countries: ['DE'] } } } }, way)
    t.match(data.message, 'Read as: countries DE', way)
    t.match(text, 'Read as: countries DE', way)
    const [first] = data.signals ?? []
    t.match(first?.name, /Germany/, `${way}: the best match`)
    if (way !== 'overMcp') t.ok(text.includes(String(first?.signal_agent_segment_id)), 'with its handle')
  }

  for (const [signal_spec, read_as, said] of READ) {
    const { ext, message } = await world.call('get_signals', { signal_spec })
    t.match(ext, { tributary: { read_as } }, signal_spec)
    t.match(message, said, signal_spec)
  }
})
