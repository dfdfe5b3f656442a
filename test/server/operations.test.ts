import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { test } from 'tap'
import { Type } from '../../src/adcp/schema.js'
import { requestEnvelope } from '../../src/adcp/task-schemas.js'
import { createFeed } from '../../src/feed/feed.js'
import type { Task } from '../../src/tasks/task.js'
import { healthOf } from '../support/health.js'
import { BUYER_TOKEN, OPERATOR_TOKEN, startServer } from '../support/server-fixture.js'
import { until } from '../support/until.js'

const Request = Type.Object({ ...requestEnvelope })

/** A task that the test holds in its hand. */
function heldTask() {
  let release = () => {}
  let entered = () => {}
  const running = new Promise<void>((resolve) => {
    entered = resolve
  })
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  let signal: AbortSignal | undefined
  const task: Task<typeof Request> = {
    name: 'hold',
    title: 'Hold',
    description: 'Waits until the test lets go.',
    request: Request,
    mutating: true,
    async handle(_input, context) {
      signal = context.signal
      entered()
      await released
      return { kind: 'answer', message: 'Held.', fields: { held: true } }
    },
  }
  return { task, running, release: () => release(), signal: () => signal }
}

function throwing(error: unknown): Task<typeof Request> {
  return {
    ...{ name: 'throw', title: 'Throw', description: 'Has a bug.', request: Request, mutating: false },
    handle() {
      throw error
    },
  }
}

const page = { discovery_mode: 'wholesale' }

test('alive at once, ready with the first snapshot, and says when to come back until then', async (t) => {
  const feed = createFeed({ cursorSecret: 'x', retain: { ms: 1, bytes: 2 ** 30 } })
  const { send, call } = await startServer(t, { feed })
  t.equal((await send('/healthz', {})).status, 200)
  const { status, headers } = await send('/readyz', {})
  t.equal(status, 503)
  t.equal(headers.get('retry-after'), '1')
  const { adcp_error } = await call('get_signals', page)
  t.equal(adcp_error.code, 'SERVICE_UNAVAILABLE')
  t.equal(adcp_error.recovery, 'transient')
  t.ok(adcp_error.retry_after >= 1)
})

test('what cannot be stored is told beside what is served', async (t) => {
  let problem: string | undefined
  const { send } = await startServer(t, { storageProblem: () => problem })
  const ready = async () => {
    return (await send('/readyz', {})).json
  }
  t.notMatch(await ready(), { storage: {} })
  problem = 'the storage cannot serve just now: disk full'
  t.match(await ready(), { status: 'ready', storage: { problem } })
  problem = undefined
  t.notMatch(await ready(), { storage: {} })
})

test('close finishes what is in flight and takes nothing new', async (t) => {
  const { task, running, release } = heldTask()
  const { app, call, url } = await startServer(t, { tasks: [task] })
  const held = call('hold', {})
  await running
  const closed = app.close()
  await until(
    () => app.server.listening,
    (listening) => !listening,
  )
  await t.rejects(fetch(`${url}/healthz`), 'no new connection is taken')
  release()
  t.equal((await held).held, true)
  await closed
})

test('neither an idle kept-alive connection nor a silent one holds the close up', async (t) => {
  const { app, url } = await startServer(t)
  const silent = connect(Number(new URL(url).port), '127.0.0.1')
  await new Promise((resolve) => silent.once('connect', resolve))
  const agent = new Agent({ keepAlive: true })
  await new Promise<void>((resolve, reject) => {
    request(`${url}/healthz`, { agent }, (reply) => reply.resume().on('end', resolve))
      .on('error', reject)
      .end()
  })
  const dropped = new Promise((resolve) => silent.once('close', resolve))
  await app.close()
  await dropped
  agent.destroy()
  t.pass('closed')
})

test('a task learns that its caller hung up', async (t) => {
  const { task, running, release, signal } = heldTask()
  const { url } = await startServer(t, { tasks: [task] })
  const controller = new AbortController()
  const gone = fetch(`${url}/mcp`, {
    method: 'POST',
    signal: controller.signal,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${BUYER_TOKEN}` },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'hold', arguments: {} },
    }),
  })
  await running
  const aborted = new Promise((resolve) => signal()?.addEventListener('abort', resolve))
  controller.abort()
  await t.rejects(gone)
  await aborted
  release()
  t.pass('the signal went off')
})

test('a bug in a task is one answer of SERVICE_UNAVAILABLE and one line in the log, without its words', async (t) => {
  const { call, lines } = await startServer(t, { tasks: [throwing(new Error('secret words'))] })
  const answer = await call('throw', { context: { a: 1 } })
  t.equal(answer.adcp_error.code, 'SERVICE_UNAVAILABLE')
  t.same(answer.context, { a: 1 })
  t.notOk(JSON.stringify(answer).includes('secret words'))
  const logged = lines.map((line) => JSON.parse(line)).filter(({ level }) => level === 50)
  t.equal(logged.length, 1)
  t.equal(logged[0].task, 'throw')
  t.ok(logged[0].requestId)
})

test('anonymous callers cannot change anything', async (t) => {
  const { task } = heldTask()
  const { post } = await startServer(t, { tasks: [task] })
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'hold', arguments: {} } }
  const { json } = await post('/mcp', body, { 'mcp-protocol-version': '2025-06-18' })
  t.equal(json.result.structuredContent.adcp_error.code, 'AUTH_REQUIRED')
})

test('metrics count outcomes in our own words; operators see the whole', async (t) => {
  const { Gauge, Registry } = await import('prom-client')
  const operatorRegistry = new Registry()
  new Gauge({ name: 'tributary_of_operators', help: 'x', registers: [operatorRegistry] }).set(7)
  const { call, send } = await startServer(t, { operatorRegistry })
  await call('get_signals', page)
  await call('get_signals', {})
  const open = (await send('/metrics', {})).text
  t.match(open, /tributary_task_calls_total\{task="get_signals",transport="mcp",outcome="completed"\} 1/)
  t.match(
    open,
    /tributary_task_calls_total\{task="get_signals",transport="mcp",outcome="INVALID_REQUEST"\} 1/,
  )
  const took = (name: string, mode = 'wholesale') =>
    new RegExp(`tributary_task_seconds_${name}task="get_signals",transport="mcp",mode="${mode}"\\} 1`)
  t.match(open, took('count\\{', 'brief'), 'apart from pages: a brief waits for upstreams')
  t.match(open, /# TYPE tributary_task_seconds histogram/)
  t.match(open, took('count\\{'))
  t.match(open, took('bucket\\{le="120",'))
  t.match(open, took('bucket\\{le="\\+Inf",'))
  t.equal((await send('/metrics', {})).text.match(/tributary_task_calls_total\{/g)?.length, 2, 'counted once')
  t.notOk(open.includes('tributary_of_operators'))
  const full = (await send('/metrics', { headers: { authorization: `Bearer ${OPERATOR_TOKEN}` } })).text
  t.match(full, /tributary_of_operators 7/)
})

test('whoever is turned away is not shown the metrics either; who names nobody is', async (t) => {
  const { send } = await startServer(t, { callers: { anonymous: 'deny', keys: [] } })
  const status = async (headers: Record<string, string>) => (await send('/metrics', { headers })).status
  t.equal(await status({ authorization: 'Bearer somebody-elses' }), 401)
  t.equal(await status({ origin: 'https://evil.example' }), 403)
  t.equal(await status({}), 200)
})

test('an upstream that is not fresh is named in incomplete[], with our words and not its own', async (t) => {
  const at = (name: string) => ({ url: `https://${name}.example`, agentUrl: `https://${name}.example` })
  const { call } = await startServer(t, {
    now: () => 1_000_000,
    upstreams: healthOf(() => [
      { ...at('g'), id: 'good', name: 'G', state: 'fresh', listings: 1, dropped: {} },
      {
        ...{ ...at('d'), id: 'dead', name: 'D', state: 'absent', listings: 0, dropped: {} },
        problem: { reason: 'unreachable', message: 'connect 10.0.0.7: internal words' },
        nextAttemptAt: 1_004_000,
      },
      { ...at('n'), id: 'new', name: 'N', state: 'starting', listings: 0, dropped: {} },
    ]),
  })
  const { incomplete } = await call('get_signals', page)
  t.same(incomplete, [
    {
      scope: 'wholesale_feed',
      description: 'dead is absent: it cannot be reached; its signals are missing.',
      estimated_wait: { interval: 4, unit: 'seconds' },
    },
    { scope: 'wholesale_feed', description: 'new has not been read yet; its signals are missing.' },
  ])
  const lookup = await call('get_signals', { signal_refs: [{ scope: 'product', signal_id: 'x' }] })
  t.equal(lookup.incomplete[0].scope, 'signals')
})

test('a refused call leaves a line with its reason, and a flood of them no flood of lines', async (t) => {
  const { call, lines } = await startServer(t, { now: () => 0 })
  for (let calls = 0; calls < 120; calls += 1) await call('get_signals', { max_results: 'many' })
  const refused = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'refused')
  t.match(refused[0], { task: 'get_signals', transport: 'mcp', outcome: 'INVALID_REQUEST', requestId: /./ })
  t.equal(refused.length, 100)
  t.notMatch(lines.join(), 'many', 'what a caller sent is no part of it')
})
