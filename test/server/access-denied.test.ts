import { test } from 'tap'
import { createRateLimiter } from '../../src/server/door/admission.js'
import { createDispatcher } from '../../src/server/door/dispatcher.js'
import { getSignals } from '../../src/tasks/get-signals.js'
import { healthOf } from '../support/health.js'
import { onlyLookups } from '../support/only-lookups.js'
import { plainFeed } from '../support/server-feed.js'

test('a principal without access is told so in the envelope of failures, before anything is read', async (t) => {
  const feed = plainFeed(3)
  const tasks = [
    getSignals({
      ...{ feed, upstreams: healthOf(() => []), discovery: onlyLookups(feed) },
      declaredAccounts: async () => false,
    }),
  ]
  const dispatcher = createDispatcher({
    tasks,
    previews: [],
    limiter: createRateLimiter(undefined),
    now: () => 0,
    observe: () => {},
    onBug: (error) => t.fail(String(error)),
  })
  const payload = await dispatcher.run({
    task: 'get_signals',
    arguments: { discovery_mode: 'wholesale', context: { a: 1 } },
    rawContext: () => '{"a":1}',
    contextId: undefined,
    who: { kind: 'denied', bucket: 'jwt stranger' },
    transport: 'mcp',
    comesAgain: false,
    requestId: '1',
    signal: () => AbortSignal.abort(),
  })
  const said = JSON.parse(payload.head)
  t.equal(said.status, 'failed')
  t.equal(said.adcp_error.code, 'AGENT_ACCESS_DENIED')
  t.equal(said.adcp_error.recovery, 'terminal')
  t.same(said.context, { a: 1 })
  t.notOk(payload.head.includes('stranger'))
})
