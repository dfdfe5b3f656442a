import { test } from 'tap'
import { createActivation } from '../../src/activation/activation.js'
import { systemClock } from '../../src/net/clock.js'
import { DEFAULT_RETENTION } from '../../src/store/retention.js'
import { getTaskStatus } from '../../src/tasks/get-task-status.js'
import { listTasks } from '../../src/tasks/list-tasks.js'
import { adcpSchema, SCHEMAS_ABSENT } from '../support/adcp-schema.js'
import { BUYER_TOKEN, OTHER_TOKEN, startServer } from '../support/server-fixture.js'
import { until } from '../support/upstream-world.js'
import { startReceiver } from './support/receiver.js'
import { buyer, startWorld } from './support/world.js'

const ENOUGH = { interval: 60, unit: 'seconds' } // however busy the machine
const SHORT = { interval: 1, unit: 'seconds' }
const credentials = 'a-bearer-token-of-at-least-32-characters'

test('a buyer asks over MCP, pages, and polls what takes longer', async (t) => {
  const { discovery, feed, upstreams, store, sandbox } = await startWorld(t, 300)
  const activation = createActivation({
    retention: DEFAULT_RETENTION,
    ...{ store, clock: systemClock, newId: () => 'id', refreshSoon: () => {}, onProblem: () => {} },
    resolve: (handle) => feed.resolve(handle) ?? discovery.resolve(handle, buyer),
    upstreamAt: upstreams.idOf,
    hasOwnCredential: () => false,
    call: async () => ({ kind: 'failed', reason: 'unreachable', message: '' }),
  })
  t.teardown(() => activation.close())
  const { post } = await startServer(t, {
    feed,
    upstreams,
    discovery,
    tasks: [getTaskStatus(activation), listTasks({ ...activation, secret: 'secret' })] as never,
  })

  async function call(name: string, input: object, token = BUYER_TOKEN) {
    const reply = await post(
      '/mcp',
      {
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name, arguments: { adcp_version: '3.1', ...input } },
      },
      { authorization: `Bearer ${token}`, 'mcp-protocol-version': '2025-06-18' },
    )
    return reply.json.result.structuredContent
  }

  const question = { signal_spec: 'mortgage seekers', time_budget: ENOUGH, context: { mine: 1 } }
  const answer = await call('get_signals', { ...question, pagination: { max_results: 5 } })
  t.match(answer, { status: 'completed', context: { mine: 1 }, cache_scope: 'public' })
  t.match(answer.message, /^Best match: "Mortgage Seekers/)
  t.equal(answer.signals.length, 5)
  const pagination = { max_results: 5, cursor: answer.pagination.cursor }
  const second = await call('get_signals', { ...question, pagination })
  t.equal(second.signals.length, 5)
  t.notSame(second.signals[0], answer.signals[0])
  t.match(await call('get_signals', { ...question, pagination }, OTHER_TOKEN), {
    status: 'failed',
    adcp_error: { code: 'INVALID_REQUEST', field: 'pagination.cursor' },
  })

  sandbox.agents.meridian.briefTakes(500)
  const { url, received } = await startReceiver(t)
  const push_notification_config = { url, authentication: { schemes: ['Bearer'], credentials } }
  const submitted = await call('get_signals', {
    signal_spec: 'student loans',
    time_budget: SHORT,
    push_notification_config,
  })
  t.match(submitted, { status: 'submitted', task_id: /^task_/ })
  await until('it is notified', () => received.length === 1)
  const poll = { task_id: submitted.task_id, include_result: true }
  const done = await call('get_task_status', poll)
  t.match(done, {
    status: 'completed',
    task_type: 'get_signals',
    has_webhook: true,
    result: { signals: [{ name: /Student Loan/ }] },
  })
  const listed = async (has_webhook: boolean) =>
    (await call('list_tasks', { filters: { has_webhook } })).tasks
  t.match(await listed(true), [{ task_id: submitted.task_id, has_webhook: true }])
  t.same(await listed(false), [])
  t.match(await call('get_task_status', poll, OTHER_TOKEN), { adcp_error: { code: 'REFERENCE_NOT_FOUND' } })

  if (SCHEMAS_ABSENT) return t.comment(`not validated: ${SCHEMAS_ABSENT}`)
  for (const [schema, value] of [
    ['signals/get-signals-response.json', answer],
    ['signals/get-signals-response.json', second],
    ['signals/get-signals-async-response-submitted.json', submitted],
    ['protocol/get-task-status-response.json', done],
  ] as const) {
    const validate = adcpSchema(schema)
    t.ok(validate(value), `${schema}: ${JSON.stringify(validate.errors)?.slice(0, 500)}`)
  }
})
