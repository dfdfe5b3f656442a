import { EventEmitter, once } from 'node:events'
import { test } from 'tap'
import { createA2aAgent } from '../../src/upstreams/agent/a2a.js'
import { createMcpAgent } from '../../src/upstreams/agent/mcp.js'
import { readJson, startHttp } from '../support/upstream-agent.js'
import { configOf, loopbackEgress, openUpstreams, until } from '../support/upstream-world.js'

type Test = { teardown(task: () => unknown): void }

const none = { type: 'none' } as const
/** No wait in this file is so long; what ends sooner was ended by what the test says. */
const LONG = 60_000
const STEP_MS = 50

async function timed<T>(task: () => Promise<T>): Promise<{ outcome: T; ms: number }> {
  const start = Date.now()
  return { outcome: await task(), ms: Date.now() - start }
}

/** An MCP agent whose handshakes hang until it is told to go on. */
async function hangingAtFirst(t: Test) {
  const told = new EventEmitter()
  const goesOn = once(told, 'go on')
  let handshakes = 0
  const server = await startHttp(async (request, response) => {
    const { id, method } = (await readJson(request)) as { id?: number; method: string }
    if (method === 'initialize') {
      handshakes += 1
      await goesOn
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
    goOn: () => void told.emit('go on'),
    call: (timeoutMs: number, signal?: AbortSignal) =>
      agent.call('get_signals', {}, { timeoutMs, ...(signal && { signal }) }),
  }
}

test('all steps of opening an agent share one budget', async (t) => {
  const server = await startHttp((_, response) => {
    setTimeout(() => response.writeHead(404).end(), STEP_MS)
  })
  t.teardown(server.close)
  for (const create of [createMcpAgent, createA2aAgent]) {
    const { send } = loopbackEgress(t)
    const left: number[] = []
    const agent = create({
      send(outbound) {
        left.push(outbound.timeoutMs)
        return send(outbound)
      },
      url: server.url,
      auth: none,
    })
    t.match(await agent.call('get_signals', {}, { timeoutMs: LONG }), { kind: 'failed' }, agent.protocol)
    t.ok(left.length > 1, `${left.length} steps`)
    const early = 2 // a timer may fire that much before the wall clock says so, ms
    for (const [step, ms] of left.entries()) t.ok(ms <= LONG - step * (STEP_MS - early), `${ms} ms are left`)
  }
})

test('who joins a handshake waits no longer than its own budget', async (t) => {
  const { call, handshakes } = await hangingAtFirst(t)
  const hangUp = new AbortController()
  const first = call(LONG, hangUp.signal)
  await until('the handshake', () => handshakes() === 1)
  const { outcome, ms } = await timed(() => call(100))
  t.match(outcome, { kind: 'failed', reason: 'timeout' })
  t.ok(ms < LONG / 2, `${ms} ms`)
  t.match(await call(LONG, AbortSignal.timeout(50)), { kind: 'failed', reason: 'aborted' })
  t.equal(handshakes(), 1)
  hangUp.abort()
  t.match(await first, { kind: 'failed', reason: 'aborted' })
})

test("another's short budget does not end the handshake of those who have time", async (t) => {
  const { call, handshakes, goOn } = await hangingAtFirst(t)
  const hasty = call(100)
  const patient = call(LONG)
  t.match(await hasty, { kind: 'failed', reason: 'timeout' })
  goOn()
  t.match(await patient, { kind: 'answer' })
  t.ok(handshakes() <= 2, 'at most one more')
})

test('closing does not wait for a handshake that hangs', async (t) => {
  const { url, handshakes } = await hangingAtFirst(t)
  const { upstreams, close } = await openUpstreams(t, configOf([{ id: 'a', url }], { timeoutMs: LONG }))
  await upstreams.start()
  await until('the handshake', () => handshakes() > 0)
  const { ms } = await timed(close)
  t.ok(ms < 10_000, `${ms} ms`) // the handshake itself is given fifteen seconds
})
