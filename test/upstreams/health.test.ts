import { test } from 'tap'
import { backoffMs, jittered } from '../../src/net/clock.js'
import { startHttp, startMcpAgent } from '../support/upstream-agent.js'
import { createManualClock } from '../support/upstream-clock.js'
import { wholesaleAgent } from '../support/upstream-feed.js'
import { configOf, openUpstreams, rows, until, urlOf } from '../support/upstream-world.js'

type Test = { teardown(task: () => unknown): void }

const LONG = 60_000
const soon = () => Date.now() + LONG

/** A healthy agent that can be told to answer 503 instead, with or without a Retry-After. */
async function fragile(t: Test) {
  const agent = await startMcpAgent(wholesaleAgent(rows(10), 'v1').handle)
  t.teardown(agent.close)
  let trouble: { retryAfter?: string } | undefined
  let requests = 0
  const front = await startHttp(async (request, response) => {
    requests += 1
    if (trouble) {
      response.writeHead(503, trouble.retryAfter ? { 'retry-after': trouble.retryAfter } : {}).end()
      return
    }
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const answer = await fetch(agent.url, {
      method: request.method ?? 'GET',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: Buffer.concat(chunks),
    })
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' })
    response.end(Buffer.from(await answer.arrayBuffer()))
  })
  t.teardown(front.close)
  return {
    url: front.url,
    requests: () => requests,
    fail(how: { retryAfter?: string } | undefined) {
      trouble = how
    },
  }
}

test('after failures the wait doubles, never beyond a minute; a wish of the agent is honoured within reason', async (t) => {
  const wait = (failures: number, retryAfterMs?: number) =>
    backoffMs({ failures, refreshMs: 300_000, random: () => 1, retryAfterMs })
  t.same(
    [1, 2, 3, 4, 7, 50].map((failures) => wait(failures)),
    [1_000, 2_000, 4_000, 8_000, 60_000, 60_000],
  )
  t.equal(wait(1, 30_000), 30_000)
  t.equal(wait(1, 86_400_000), 60_000)
  t.equal(
    backoffMs({ failures: 1, refreshMs: 50, random: () => 1 }),
    50,
    'a short schedule is not slowed down',
  )
  t.same(
    [0, 1].map((at) => jittered(1_000, () => at)),
    [900, 1_100],
  )
})

test('a failing upstream is stale with its rows, and absent once they pass their cap', async (t) => {
  const agent = await fragile(t)
  const time = createManualClock()
  const pace = { refreshMs: 60_000, staleAfterMs: 3_600_000, dropAfterMs: 7_200_000 }
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }], pace), {
    clock: time.clock,
  })
  const status = () => upstreams.statuses()[0]
  await upstreams.start()
  await until('a slice', () => status()?.state === 'fresh')
  agent.fail({})
  time.advance(70_000)
  await until('the failure', () => {
    time.advance(1_000) // retries wait on this clock too
    return status()?.problem !== undefined
  })
  t.match(status(), { state: 'stale', listings: 10, problem: { reason: 'server_error' } })
  t.equal(upstreams.slices().length, 1)
  time.advance(7_200_000)
  t.match(status(), { state: 'absent', listings: 0 })
  t.equal(upstreams.slices().length, 0)
  agent.fail(undefined)
  await until('its return', () => {
    time.advance(10_000)
    return status()?.state === 'fresh'
  })
  t.equal(upstreams.slices().length, 1)
})

test('the state of an upstream is the same object until it says something else', async (t) => {
  const agent = await fragile(t)
  const time = createManualClock()
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }]), { clock: time.clock })
  const status = () => upstreams.statuses()[0]
  await upstreams.start()
  await until('a slice', () => status()?.state === 'fresh')
  const fresh = status()
  time.advance(1_000)
  t.equal(status(), fresh, 'every answer looks at it')
  upstreams.refreshSoon(urlOf(upstreams, 'a'))
  t.not(status(), fresh)
  t.match([fresh?.awaited, status()?.awaited], [undefined, true])
})

test('an upstream that is failing gets single probes, and calls to it fail at once', async (t) => {
  const agent = await fragile(t)
  const time = createManualClock()
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }]), { clock: time.clock })
  await upstreams.start()
  await until('a slice', () => upstreams.slices().length === 1)
  agent.fail({})
  for (let failures = 0; failures < 3; failures++) {
    const outcome = await upstreams.call(
      urlOf(upstreams, 'a'),
      'activate_signal',
      {},
      { deadline: time.clock.now() + LONG },
    )
    t.match(outcome, { kind: 'failed', reason: 'server_error' })
  }
  const before = agent.requests()
  const refused = await upstreams.call(
    urlOf(upstreams, 'a'),
    'activate_signal',
    {},
    { deadline: time.clock.now() + LONG },
  )
  t.match(refused, { kind: 'failed', reason: 'backing_off' })
  t.equal(agent.requests(), before, 'nothing was sent')
  t.ok(((refused.kind === 'failed' && refused.retryAfterMs) as number) <= 1_000, 'the probe is near')
  agent.fail(undefined)
  time.advance(1_000)
  let answered = false
  await until('recovery', () => {
    const deadline = time.clock.now() + LONG
    void upstreams.call(urlOf(upstreams, 'a'), 'get_adcp_capabilities', {}, { deadline }).then(({ kind }) => {
      answered ||= kind === 'answer'
    })
    return answered
  })
})

test('Retry-After puts the next attempt off', async (t) => {
  const agent = await fragile(t)
  agent.fail({ retryAfter: '40' })
  const time = createManualClock()
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }]), { clock: time.clock })
  await upstreams.start()
  await until('the failure', () => upstreams.statuses()[0]?.problem !== undefined)
  t.equal((upstreams.statuses()[0]?.nextAttemptAt ?? 0) - time.clock.now(), 40_000)
})

test('a caller with a short deadline is answered by it, and proves nothing against the upstream', async (t) => {
  const hung = await startHttp(() => {})
  const agent = await startMcpAgent(wholesaleAgent(rows(10), 'v1').handle)
  for (const each of [hung, agent]) t.teardown(each.close)
  const statics = [
    { id: 'a', url: agent.url },
    { id: 'slow', url: hung.url, protocol: 'mcp' as const },
  ]
  const { upstreams } = await openUpstreams(t, configOf(statics, { timeoutMs: 10 * LONG }))
  await upstreams.start()
  await until('a slice', () => upstreams.slices().length === 1)
  for (let calls = 0; calls < 5; calls++) {
    const start = Date.now()
    const outcome = await upstreams.call(
      urlOf(upstreams, 'slow'),
      'get_signals',
      {},
      { deadline: start + 30 },
    )
    t.match(outcome, { kind: 'failed', reason: 'timeout' })
    t.ok(Date.now() - start < LONG)
  }
  t.match(await upstreams.call(urlOf(upstreams, 'a'), 'get_adcp_capabilities', {}, { deadline: soon() }), {
    kind: 'answer',
  })
})

test('upstreams that hang take no time and no place from those that answer', async (t) => {
  const hung = await Promise.all(Array.from({ length: 10 }, () => startHttp(() => {})))
  const agent = await startMcpAgent(wholesaleAgent(rows(500), 'v1').handle)
  for (const each of [...hung, agent]) t.teardown(each.close)
  const statics = [...hung.map(({ url }, at) => ({ id: `hung-${at}`, url })), { id: 'good', url: agent.url }]
  const { upstreams, close } = await openUpstreams(t, configOf(statics, { timeoutMs: 10 * LONG }))
  await upstreams.start()
  let ended = 0
  const waiting = Promise.all(
    hung.flatMap((_, at) =>
      Array.from({ length: 20 }, async () => {
        const { kind } = await upstreams.call(
          urlOf(upstreams, `hung-${at}`),
          'get_signals',
          {},
          { deadline: soon() },
        )
        ended += 1
        return kind
      }),
    ),
  )
  await until('the good one', () => upstreams.slices().length === 1)
  t.match(await upstreams.call(urlOf(upstreams, 'good'), 'get_adcp_capabilities', {}, { deadline: soon() }), {
    kind: 'answer',
  })
  t.equal(ended, 0, 'the others still wait')
  await close()
  t.ok((await waiting).every((kind) => kind === 'failed'))
})

test('a call to nobody, and one whose deadline has passed, say so', async (t) => {
  const agent = await startMcpAgent(wholesaleAgent(rows(1), 'v1').handle)
  t.teardown(agent.close)
  const { upstreams } = await openUpstreams(t, configOf([{ id: 'a', url: agent.url }]))
  await upstreams.start()
  t.match(await upstreams.call(urlOf(upstreams, 'b'), 'get_signals', {}, { deadline: soon() }), {
    reason: 'unknown_upstream',
  })
  t.match(await upstreams.call(urlOf(upstreams, 'a'), 'get_signals', {}, { deadline: Date.now() - 1 }), {
    reason: 'timeout',
  })
})

test('a bug met in one upstream is told, and costs no other upstream anything', async (t) => {
  const brief = await startMcpAgent((task) =>
    task === 'get_signals' ? { status: 'failed', errors: [{ code: 'X' }] } : undefined,
  )
  const good = await startMcpAgent(wholesaleAgent(rows(5), 'v1').handle)
  for (const each of [brief, good]) t.teardown(each.close)
  const statics = [brief, good].map(({ url }, at) => ({ id: `a${at}`, url }))
  const { upstreams, trouble } = await openUpstreams(t, configOf(statics), {
    referencesFor: () => {
      throw new Error('a bug')
    },
  })
  await upstreams.start()
  await until('the good one', () => upstreams.slices().length === 1)
  await until('the report', () => trouble.length > 0)
  t.match(trouble[0], /a0: the refresh broke: Error: a bug/)
})
