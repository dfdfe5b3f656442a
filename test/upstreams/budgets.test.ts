import { test } from 'tap'
import { createA2aAgent } from '../../src/upstreams/agent/a2a.js'
import { createMcpAgent } from '../../src/upstreams/agent/mcp.js'
import { readJson, startHttp } from '../support/upstream-agent.js'
import { configOf, loopbackEgress, openUpstreams, until } from '../support/upstream-world.js'

type Test = { teardown(task: () => unknown): void }

const none = { type: 'none' } as const
const SOON = 1_500

async function timed<T>(task: () => Promise<T>): Promise<{ outcome: T; ms: number }> {
  const start = Date.now()
  return { outcome: await task(), ms: Date.now() - start }
}

/** Turns everything down, each time after a while. */
async function slowRefusals(t: Test, everyMs: number) {
  let requests = 0
  let hungUp = 0
  const server = await startHttp((_, response) => {
    requests += 1
    setTimeout(() => response.writeHead(404).end(), everyMs).unref()
    response.on('close', () => {
      if (!response.writableEnded) hungUp += 1
    })
  })
  t.teardown(server.close)
  return { url: server.url, requests: () => requests, hungUp: () => hungUp }
}

/** An MCP agent whose first handshakes hang, and whose others do not. */
async function hangingAtFirst(t: Test, hanging: number) {
  let handshakes = 0
  const server = await startHttp(async (request, response) => {
    const { id, method } = (await readJson(request)) as { id?: number; method: string }
    if (method === 'initialize') {
      handshakes += 1
      if (handshakes <= hanging) return
    }
    const result =
      method === 'initialize'
        ? { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 'x', version: '1' } }
        : { content: [], structuredContent: { status: 'completed' } }
    response.writeHead(id === undefined ? 202 : 200, { 'content-type': 'application/json' })
    response.end(id === undefined ? '' : JSON.stringify({ jsonrpc: '2.0', id, result }))
  })
  t.teardown(server.close)
  const agent = createMcpAgent({ send: loopbackEgress(t).send, url: server.url, auth: none })
  return {
    url: server.url,
    handshakes: () => handshakes,
    call: (timeoutMs: number, signal?: AbortSignal) =>
      agent.call('get_signals', {}, { timeoutMs, ...(signal && { signal }) }),
  }
}

test('all steps of opening an agent share one budget', async (t) => {
  for (const create of [createMcpAgent, createA2aAgent]) {
    const { url, requests, hungUp } = await slowRefusals(t, 400)
    const agent = create({ send: loopbackEgress(t).send, url, auth: none })
    const { outcome, ms } = await timed(() => agent.call('get_signals', {}, { timeoutMs: 600 }))
    t.match(outcome, { kind: 'failed', reason: 'timeout' }, agent.protocol)
    t.ok(ms < 1_100, `${ms} ms`)
    await until('the end of the second step', () => hungUp() === 1)
    t.equal(requests(), 2)
  }
})

test('who joins a handshake waits no longer than its own budget', async (t) => {
  const { call, handshakes } = await hangingAtFirst(t, 1)
  const first = call(600)
  const { outcome, ms } = await timed(() => call(100))
  t.match(outcome, { kind: 'failed', reason: 'timeout' })
  t.ok(ms < 1_000, `${ms} ms`)
  t.equal(handshakes(), 1)
  const gone = await timed(() => call(5_000, AbortSignal.timeout(50)))
  t.match(gone.outcome, { kind: 'failed', reason: 'aborted' })
  t.ok(gone.ms < 1_000, `${gone.ms} ms`)
  t.match(await first, { kind: 'failed', reason: 'timeout' })
})

test("another's short budget does not end the handshake of those who have time", async (t) => {
  const { call, handshakes } = await hangingAtFirst(t, 1)
  const hasty = call(100)
  const patient = call(5_000)
  t.match(await hasty, { kind: 'failed', reason: 'timeout' })
  t.match(await patient, { kind: 'answer' })
  t.equal(handshakes(), 2)
})

test('closing does not wait for a handshake that hangs', async (t) => {
  const { url, handshakes } = await hangingAtFirst(t, 1_000)
  const { upstreams, close } = await openUpstreams(t, configOf([{ id: 'a', url }], { timeoutMs: 10_000 }))
  await upstreams.start()
  await until('the handshake', () => handshakes() > 0)
  const { ms } = await timed(close)
  t.ok(ms < SOON, `${ms} ms`)
})
