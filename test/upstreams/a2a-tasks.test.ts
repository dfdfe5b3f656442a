import type { ServerResponse } from 'node:http'
import { test } from 'tap'
import { createA2aAgent } from '../../src/upstreams/agent/a2a.js'
import { readJson, startHttp } from '../support/upstream-agent.js'
import { loopbackEgress, until } from '../support/upstream-world.js'

type Test = { teardown(task: () => unknown): void }
type Poll = 'working' | 'named' | 'done' | 503 | 'reset' | 'unknown'

const done = {
  id: 't1',
  status: { state: 'TASK_STATE_COMPLETED' },
  artifacts: [{ parts: [{ text: 'done' }, { data: { status: 'completed', signals: [] } }] }],
}
const working = { id: 't1', status: { state: 'TASK_STATE_WORKING' } }
const named = { ...working, artifacts: [{ parts: [{ data: { status: 'submitted', task_id: 'adcp_1' } }] }] }

/**
 * An agent that takes the message as a task, and answers each question about it as told; the last answer stays. `refusal`:
 * the code with which it answers every message instead.
 */
async function workingAgent(t: Test, polls: Poll[], refusal?: number) {
  let sent = 0
  let asked = 0
  function tell(poll: Poll | undefined, id: number, response: ServerResponse) {
    if (poll === 'reset') return void response.socket?.resetAndDestroy()
    if (poll === 503) return void response.writeHead(503).end()
    if (poll === 'unknown') {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'no such method' } }))
      return
    }
    const result = poll === 'done' ? done : poll === 'named' ? named : working
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
  }
  const server = await startHttp(async (request, response) => {
    const { id, method } = (await readJson(request)) as { id: number; method: string }
    if (method === 'GetTask') {
      tell(polls[Math.min(asked++, polls.length - 1)], id, response)
      return
    }
    sent += 1
    const answer = refusal
      ? { error: { code: refusal, message: 'not in this version' } }
      : { result: { task: working } }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }))
  }, '/a2a')
  t.teardown(server.close)
  const agent = createA2aAgent({
    send: loopbackEgress(t).send,
    url: server.url,
    auth: { type: 'none' },
    endpoints: [
      { url: server.url, version: '1.0' },
      { url: server.url, version: '0.3' },
    ],
  })
  return {
    call: (timeoutMs: number, signal?: AbortSignal) =>
      agent.call('activate_signal', {}, { timeoutMs, ...(signal && { signal }) }),
    read: () => agent.call('get_signals', {}, { timeoutMs: 60_000 }),
    sent: () => sent,
    asked: () => asked,
  }
}

test('a task that is still worked on is asked about until it is done, or the time is up', async (t) => {
  const slow = await workingAgent(t, ['working', 'done'])
  const endless = await workingAgent(t, ['working'])
  const [answered, late] = await Promise.all([slow.call(60_000), endless.call(700)])
  t.match(answered, { kind: 'answer', payload: { status: 'completed' } })
  t.equal(slow.asked(), 2)
  t.match(late, { kind: 'failed', reason: 'timeout' })
})

test('a task that names a task of AdCP is asked about by that name, however long it goes on', async (t) => {
  const { call, asked } = await workingAgent(t, ['named'])
  t.match(await call(60_000), { kind: 'answer', payload: { status: 'submitted', task_id: 'adcp_1' } })
  t.equal(asked(), 1)
})

test('a question about a task that fails is asked again, the message is not sent again', async (t) => {
  const { call, sent, asked } = await workingAgent(t, [503, 'reset', 'done'])
  t.match(await call(60_000), { kind: 'answer', payload: { status: 'completed' } })
  t.equal(asked(), 3)
  t.equal(sent(), 1)
})

test('three failed questions in a row are the outcome', async (t) => {
  const { call, asked } = await workingAgent(t, [503])
  t.match(await call(60_000), { kind: 'failed', reason: 'server_error' })
  t.equal(asked(), 3)
})

test('whoever gives up does not wait for the next question', async (t) => {
  const endless = await workingAgent(t, ['working'])
  const patience = new AbortController()
  const called = endless.call(60_000, patience.signal)
  await until('the message was taken', () => endless.sent() === 1)
  patience.abort()
  t.match(await called, { kind: 'failed', reason: 'aborted' })
  t.ok(endless.asked() <= 1, 'a busy machine may take so long to give up that one is on its way')
})

test('an agent that tells nothing about its tasks is not sent the message again in another version', async (t) => {
  const { call, sent, asked } = await workingAgent(t, ['unknown'])
  t.match(await call(60_000), { kind: 'failed', reason: 'protocol_error' })
  t.equal(asked(), 1)
  t.equal(sent(), 1)
})

test('a version that is refused is tried again in another one by a reading alone', async (t) => {
  for (const refusal of [-32_601, -32_009]) {
    const { call, read, sent } = await workingAgent(t, [], refusal)
    t.match(await call(60_000), { kind: 'error' })
    t.equal(sent(), 1, 'nobody knows what was done before it was refused')
    t.match(await read(), { kind: 'error' })
    t.equal(sent(), 3)
  }
})
