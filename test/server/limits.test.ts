import { test } from 'tap'
import { createAdmission, createRateLimiter } from '../../src/server/door/admission.js'
import { noWayOut } from '../support/no-way-out.js'
import { BUYER_TOKEN, OTHER_TOKEN, startServer } from '../support/server-fixture.js'

test('a bucket holds its burst and refills by the clock', (t) => {
  const limiter = createRateLimiter({ perSecond: 2, burst: 3 })
  t.same(
    [0, 0, 0, 1],
    [1, 2, 3, 4].map(() => limiter.take('a', 0)),
  )
  t.equal(limiter.take('b', 0), 0, 'another caller has a bucket of his own')
  t.equal(limiter.take('a', 500), 0)
  t.equal(limiter.take('a', 500), 1)
  t.equal(limiter.take('a', 400), 1, 'a clock that steps back gives nothing away')
  t.throws(() => createRateLimiter({ perSecond: 0, burst: 1 }), /per_second > 0/)
  const slow = createRateLimiter({ perSecond: 1e-6, burst: 1 })
  t.same([slow.take('a', 0), slow.take('a', 0)], [0, 3_600], 'nobody is told to wait for more than an hour')
  t.end()
})

test('who was held back is counted, the most often first', (t) => {
  const admission = createAdmission({
    ...{ callers: { anonymous: 'deny', keys: [] }, rateLimit: { perSecond: 1, burst: 1 } },
    ...{ send: noWayOut, now: () => 0 },
  })
  for (const caller of ['once', 'never', 'twice', 'once', 'twice', 'twice']) admission.take(caller, 0)
  t.same(admission.limited(), [
    ['twice', 2],
    ['once', 1],
  ])
  t.end()
})

test('what a caller has asked outlives a change of the configuration', (t) => {
  const options = { callers: { anonymous: 'deny', keys: [] }, send: noWayOut, now: () => 0 } as const
  const admission = createAdmission({ ...options, rateLimit: { perSecond: 1, burst: 2 } })
  t.same([admission.take('a', 0), admission.take('a', 0)], [0, 0])
  admission.reconfigure({ ...options, rateLimit: { perSecond: 2, burst: 4 } })
  t.same(
    [0, 500, 500].map((now) => admission.take('a', now)),
    [1, 0, 1],
    'by the new limit',
  )
  t.equal(admission.take('b', 0), 0)
  t.end()
})

test('who asks too much is told when to come back, in the envelope; others are not held up', async (t) => {
  const { call, post } = await startServer(t, { rateLimit: { perSecond: 0.5, burst: 2 }, now: () => 1_000 })
  const args = { discovery_mode: 'wholesale', context: { a: 1 } }
  await call('get_signals', args)
  await call('get_signals', args)
  const { status, adcp_error, context } = await call('get_signals', args)
  t.equal(status, 'failed')
  t.equal(adcp_error.code, 'RATE_LIMITED')
  t.equal(adcp_error.recovery, 'transient')
  t.equal(adcp_error.retry_after, 2)
  t.same(context, { a: 1 })
  const ping = await post(
    '/mcp',
    { jsonrpc: '2.0', id: 1, method: 'ping' },
    { authorization: `Bearer ${BUYER_TOKEN}` },
  )
  t.equal(ping.status, 429)
  t.equal(ping.headers.get('retry-after'), '2')
  t.equal((await call('get_signals', args, { authorization: `Bearer ${OTHER_TOKEN}` })).status, 'completed')
})

test('a message that continues a task of A2A counts like any other, because other processes may be asked for it', async (t) => {
  const { post } = await startServer(t, { rateLimit: { perSecond: 0.5, burst: 2 }, now: () => 1_000 })
  const message = {
    messageId: 'm',
    role: 'ROLE_USER',
    taskId: `a2a_${'x'.repeat(16)}_1`,
    parts: [{ text: 'on' }],
  }
  const body = { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } }
  const ask = () => post('/a2a', body, { authorization: `Bearer ${BUYER_TOKEN}` })
  for (let asked = 0; asked < 2; asked += 1) t.match((await ask()).json, { error: { code: -32_001 } })
  const refused = await ask()
  t.equal(refused.status, 429)
  t.equal(refused.headers.get('retry-after'), '2')
})
