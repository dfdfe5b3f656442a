import fc from 'fast-check'
import { test } from 'tap'
import { locateA2a } from '../../src/upstreams/a2a.js'
import { readAnswer } from '../../src/upstreams/answer.js'
import { locateMcp } from '../../src/upstreams/mcp.js'
import { skim } from '../../src/upstreams/skim.js'

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
