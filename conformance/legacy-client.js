/** The A2A 0.3 client of the wild (`@a2a-js/sdk` 0.3) against the card and both kinds of send. */
import { A2AClient } from '@a2a-js/sdk/client'

const INPUT = { discovery_mode: 'wholesale', pagination: { max_results: 2 } }

function message() {
  const parts = [{ kind: 'data', data: { skill: 'get_signals', parameters: INPUT } }]
  return { message: { kind: 'message', messageId: crypto.randomUUID(), role: 'user', parts } }
}

function rowsOf(task) {
  const data = task.artifacts[0].parts.find((part) => part.kind === 'data')
  return data.data.signals.length
}

export async function runLegacyClient(url, key) {
  const fetchImpl = (where, init) => {
    const headers = new Headers(init?.headers)
    headers.set('authorization', `Bearer ${key}`)
    return fetch(where, { ...init, headers })
  }
  const client = await A2AClient.fromCardUrl(`${url}/.well-known/agent-card.json`, { fetchImpl })
  const sent = await client.sendMessage(message())
  if (sent.error || sent.result.status.state !== 'completed' || rowsOf(sent.result) !== 2) {
    throw new Error(`message/send: ${JSON.stringify(sent).slice(0, 500)}`)
  }
  const got = await client.getTask({ id: sent.result.id })
  if (got.result?.id !== sent.result.id) throw new Error(`tasks/get: ${JSON.stringify(got).slice(0, 500)}`)
  let last
  for await (const event of client.sendMessageStream(message())) last = event
  if (last?.kind !== 'task' || rowsOf(last) !== 2) throw new Error('message/stream gave no finished task')
  return { lines: ['a2a  passed  @a2a-js/sdk 0.3 client: card, send, get, stream'], unexpected: 0 }
}
