import fc from 'fast-check'
import { test } from 'tap'
import { locateA2a, locateMcp, readAnswer } from '../../src/upstreams/agent/answer.js'
import { skim } from '../../src/upstreams/rows/skim.js'

const SEED = 20261120
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

for (const [transport, locate] of [
  ['MCP', locateMcp],
  ['A2A', locateA2a],
] as const) {
  test(`whatever stands in an ${transport} answer, it is an answer, an error or a failure`, async (t) => {
    t.comment(`seed ${SEED}`)
    fc.assert(
      fc.property(anything, (result) => {
        const message = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, result }))
        const outcome = readAnswer(skim(message), locate)
        if (outcome.kind === 'error')
          return outcome.error.code.length <= 64 && outcome.error.message.length <= 500
        return outcome.kind === 'answer' || outcome.reason === 'protocol_error'
      }),
      { seed: SEED, numRuns: 2_000 },
    )
  })
}

test('whatever frameworks put around it, the rows of an answer are found', async (t) => {
  const given = { status: 'completed', signals: [{ name: 'A' }, { name: 'B' }] }
  const text = JSON.stringify(given)
  const task = (...parts: unknown[]) => ({
    task: { status: { state: 'TASK_STATE_COMPLETED' }, artifacts: [{ parts }] },
  })
  const wholes: [locate: typeof locateMcp, result: unknown][] = [
    [locateMcp, { content: [], structuredContent: given }],
    [locateMcp, { content: [], structuredContent: { result: given } }],
    [locateMcp, { content: [{ type: 'text', text }] }],
    [
      locateMcp,
      {
        content: [
          { type: 'text', text: 'Found 2 signals' },
          { type: 'text', text },
        ],
      },
    ],
    [locateMcp, { content: [{ type: 'text', text: JSON.stringify({ result: given }) }] }],
    [locateMcp, given],
    [locateA2a, task({ text: 'Found 2 signals' }, { data: given })],
    [locateA2a, task({ data: { response: given } })],
    [locateA2a, task({ data: { id: 'call-1', name: 'get_signals', response: { result: given } } })],
    [locateA2a, task({ text: 'Found 2 signals' }, { text })],
    [locateA2a, { kind: 'message', parts: [{ kind: 'data', data: given }] }],
  ]
  for (const [locate, result] of wholes) {
    const message = JSON.stringify({ jsonrpc: '2.0', id: 1, result })
    const outcome = readAnswer(skim(Buffer.from(message)), locate)
    t.match(outcome, { kind: 'answer', payload: { status: 'completed' }, rows: { elements: 2 } }, message)
  }
  const polled = { result: given, status: 'completed', task_id: 't' }
  const message = JSON.stringify({ result: { content: [], structuredContent: polled } })
  const outcome = readAnswer(skim(Buffer.from(message)), locateMcp)
  t.match(
    outcome,
    { payload: { task_id: 't', result: {} }, rows: { elements: 2 } },
    'a member of an answer is no wrapping',
  )
})
