import fc from 'fast-check'
import { test } from 'tap'
import type { AgentOutcome } from '../../src/upstreams/agent/agent.js'
import { readMessages } from '../../src/upstreams/agent/answer.js'
import { proven } from '../support/proven.js'
import { row } from '../support/upstream-world.js'

const words = [
  ...[
    'result',
    'structuredContent',
    'content',
    'text',
    'isError',
    'signals',
    'status',
    'errors',
    'adcp_error',
  ],
  ...[
    'task',
    'message',
    'artifacts',
    'parts',
    'data',
    'state',
    'code',
    'details',
    'retry_after',
    '__proto__',
  ],
]
const values = fc.constantFrom<unknown>(
  'failed',
  'TASK_STATE_FAILED',
  '{"adcp_error":{}}',
  '{"signals":[1]}',
  1e300,
  -1,
  null,
  true,
  '',
)
const anything = fc.letrec((tie) => ({
  value: fc.oneof({ depthSize: 'medium' }, values, fc.string(), tie('list'), tie('object')),
  list: fc.array(tie('value'), { maxLength: 3 }),
  object: fc.dictionary(fc.constantFrom(...words), tie('value'), { maxKeys: 5 }),
})).value

/** The outcome of a request that was answered with this result. */
function outcomeOf(as: 'mcp' | 'a2a', result: unknown): AgentOutcome {
  const message = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, result }))
  const read = readMessages({ messages: [message], id: 1, as, bounds: {} })
  if (read.kind !== 'answer') throw new Error(`it was read as ${read.kind}`)
  return read.outcome
}

for (const transport of ['mcp', 'a2a'] as const) {
  test(`whatever stands in an answer over ${transport}, it is an answer, an error or a failure`, async (t) => {
    proven(
      t,
      2_000,
      fc.property(anything, (result) => {
        const outcome = outcomeOf(transport, result)
        if (outcome.kind === 'error')
          return outcome.error.code.length <= 64 && outcome.error.message.length <= 500
        return outcome.kind === 'answer' || outcome.reason === 'protocol_error'
      }),
    )
  })
}

test('of several answers in a task the last counts: of its artifacts, else of its status message', async (t) => {
  const data = (words: string) => ({ parts: [{ data: { status: 'completed', words } }] })
  const text = (words: string) => ({ text: JSON.stringify({ status: 'completed', words }) })
  const state = 'TASK_STATE_COMPLETED'
  for (const [result, words] of [
    [{ artifacts: [data('first'), data('last')], status: { state, message: data('beside') } }, 'last'],
    [{ ...data('bare'), status: { state, message: data('beside') } }, 'beside'],
    [{ artifacts: [{ parts: [text('first'), text('last'), { text: 'Done.' }] }], status: { state } }, 'last'],
  ] as const)
    t.match(outcomeOf('a2a', result), { kind: 'answer', payload: { words } })
})

test('whatever frameworks put around it, the rows of an answer are found', async (t) => {
  const given = { status: 'completed', signals: [{ name: 'A' }, { name: 'B' }] }
  const text = JSON.stringify(given)
  const task = (...parts: unknown[]) => ({
    task: { status: { state: 'TASK_STATE_COMPLETED' }, artifacts: [{ parts }] },
  })
  const wholes: [as: 'mcp' | 'a2a', result: unknown][] = [
    ['mcp', { content: [], structuredContent: given }],
    ['mcp', { content: [], structuredContent: { result: given } }],
    ['mcp', { content: [{ type: 'text', text }] }],
    [
      'mcp',
      {
        content: [
          { type: 'text', text: 'Found 2 signals' },
          { type: 'text', text },
        ],
      },
    ],
    ['mcp', { content: [{ type: 'text', text: JSON.stringify({ result: given }) }] }],
    ['mcp', given],
    ['a2a', task({ text: 'Found 2 signals' }, { data: given })],
    ['a2a', task({ data: { response: given } })],
    ['a2a', task({ data: { id: 'call-1', name: 'get_signals', response: { result: given } } })],
    ['a2a', task({ text: 'Found 2 signals' }, { text })],
    ['a2a', { kind: 'message', parts: [{ kind: 'data', data: given }] }],
  ]
  for (const [as, result] of wholes) {
    const isWrapped = /"(result|response)\\?":/.test(JSON.stringify(result))
    const rows = { elements: 2, quirks: isWrapped ? ['wrapped'] : { length: 0 } }
    t.match(outcomeOf(as, result), { payload: { status: 'completed' }, rows }, JSON.stringify(result))
  }
  const polled = { result: given, status: 'completed', task_id: 't' }
  t.match(
    outcomeOf('mcp', { content: [], structuredContent: polled }),
    { payload: { task_id: 't', result: {} }, rows: { elements: 2, quirks: { length: 0 } } },
    'a member of an answer is no wrapping',
  )
  const beside = { status: 'completed', found: given }
  for (const [as, result] of [
    ['mcp', { content: [], structuredContent: beside }],
    ['mcp', { content: [{ type: 'text', text: JSON.stringify({ result: beside }) }] }],
    ['a2a', task({ data: beside })],
  ] as const) {
    const found = { payload: { found: { signals: [{ name: 'A' }, { name: 'B' }] } }, rows: { elements: 0 } }
    t.match(outcomeOf(as, result), found, 'signals that are not the rows of the answer stay where they are')
  }
})

test('an object where a text or a number belongs is neither, whatever its members are called', async (t) => {
  const odd = { toString: 1, valueOf: 1 }
  const read = (message: object, as: 'mcp' | 'a2a' = 'mcp') =>
    readMessages({ messages: [Buffer.from(JSON.stringify(message))], id: 7, as, bounds: {} })
  const failed = { adcp_error: { code: 'X', message: 'no', retry_after: odd } }
  t.same(read({ id: odd, result: {} }), { kind: 'none' })
  t.same(read({ id: 7, error: { code: odd, message: 'no' } }), {
    ...{ kind: 'rpc_error', code: Number.NaN, message: 'no' },
  })
  t.match(read({ id: 7, result: { structuredContent: { status: odd } } }), { outcome: { kind: 'answer' } })
  t.match(read({ id: 7, result: { parts: [{ data: { status: odd } }] } }, 'a2a'), {
    outcome: { kind: 'answer' },
  })
  t.match(read({ id: '7', result: { structuredContent: failed } }), {
    outcome: { kind: 'error', error: { code: 'X', message: 'no', retryAfterMs: undefined } },
  })
  for (const seconds of [3, '3']) {
    const error = { ...failed.adcp_error, retry_after: seconds }
    t.match(read({ id: 7, result: { structuredContent: { adcp_error: error } } }), {
      outcome: { error: { retryAfterMs: 3_000 } },
    })
  }
})

test('the thread that serves takes over no more than a bound of what an answer says beside its rows', async (t) => {
  const signals = [row(1), row(2)]
  const long = 'x'.repeat(2 * 1024 ** 2)
  const many = Object.fromEntries(Array.from({ length: 90_000 }, (_, at) => [`member_${at}`, at]))
  for (const beside of [{ message: long }, { errors: [{ code: 'X', message: long }] }, many]) {
    const result = { structuredContent: { ...beside, signals } }
    const message = Buffer.from(JSON.stringify({ id: 1, result }))
    t.match(readMessages({ messages: [message], id: 1, as: 'mcp', bounds: {} }), { kind: 'too_large' })
  }
  const text = { content: [{ type: 'text', text: long }], structuredContent: { signals } }
  t.match(outcomeOf('mcp', text), { kind: 'answer', rows: { elements: 2 } }, 'a text beside it stays behind')
})

test('what stands beside the rows of an answer is bounded by its values, however short they are', (t) => {
  const objects = (count: number) => Array.from({ length: count }, (_, at) => ({ [at.toString(36)]: 0 }))
  for (const [count, kind] of [
    [9_000, 'answer'],
    [40_000, 'too_large'],
  ] as const) {
    const result = { structuredContent: { status: 'completed', signals: [], x: objects(count) } }
    const message = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, result }))
    t.equal(readMessages({ messages: [message], id: 1, as: 'mcp', bounds: {} }).kind, kind, `${count}`)
  }
  t.end()
})

test('a task whose id is longer than may be kept has none', (t) => {
  const task = (id: string) => ({ task: { id, status: { state: 'TASK_STATE_WORKING' } } })
  const pendingOf = (id: string) => {
    const message = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, result: task(id) }))
    const read = readMessages({ messages: [message], id: 1, as: 'a2a', bounds: {} })
    return read.kind === 'answer' ? read.pending : read.kind
  }
  t.equal(pendingOf('t'.repeat(255)), 't'.repeat(255))
  for (const length of [0, 256, 500_000]) t.equal(pendingOf('t'.repeat(length)), undefined, `${length}`)
  t.end()
})
