import { test } from 'tap'
import { partOutcome, usageCalls } from '../../src/activation/call-kinds.js'
import { understand } from '../../src/activation/upstream-answer.js'
import type { Call } from '../../src/store/call.js'
import { readMessages } from '../../src/upstreams/agent/answer.js'

const agentUrl = 'https://a.example/'
/** A part with two rows of the caller's report. */
const call = { agentUrl, rows: [4, 5], state: 'open' } as unknown as Call

function understood(structuredContent: object) {
  const message = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, result: { structuredContent } }))
  const read = readMessages({ messages: [message], id: 1, as: 'mcp', bounds: {} })
  if (read.kind !== 'answer') throw new Error(read.kind)
  return understand(read.outcome, { upstream: 'a', judge: usageCalls.judge(call), mayHaveActed: false })
}

/** What becomes of the two rows. */
function told(answer: object) {
  const heard = understood(answer)
  if (heard.kind === 'refused')
    return partOutcome({ call: { ...call, state: 'refused', answer: heard.error } })
  if (heard.kind !== 'done') throw new Error(heard.kind)
  return partOutcome({ call: { ...call, state: 'answered', answer: usageCalls.digest(call, heard) } })
}

const errorOf = (field?: string, code = 'BAD_ROW') => ({ code, message: 'no', ...(field && { field }) })
const refused = (row: number) => ({ field: `usage[${row}]`, message: /refused/ })
const unsaid = (row: number) => ({
  field: `usage[${row}]`,
  message: /did not say whether it counted/,
  suggestion: /a second time/,
})

test('a row that an upstream refused is told with its code where it gave one', (t) => {
  t.match(told({ accepted: 1, errors: [errorOf('usage[1]', 'bad_row')] }).errors, [
    {
      field: 'usage[5]',
      details: { upstream_code: 'bad_row' },
      suggestion: /^Mend .* See details\.upstream_code\.$/,
    },
  ])
  const [unnamed] = told({ accepted: 1, errors: [errorOf('usage[0].impressions', 'too many words')] }).errors
  t.match(unnamed, { field: 'usage[4].impressions', suggestion: /^Mend/ })
  t.strictSame(unnamed?.details, { upstream: agentUrl })
  t.end()
})

test('rows are accepted by the number alone that the upstream states, wherever it does', (t) => {
  for (const answer of [
    { accepted: 2 },
    { status: 'completed', result: { accepted: 2 } },
    { accepted: 9 },
    { accepted: 2, errors: [{ ...errorOf('usage[1]'), severity: 'warning' }] },
    { accepted: 2, status: 'submitted', task_id: 'task' },
  ])
    t.strictSame(told(answer), { accepted: 2, pending: 0, refused: 0, errors: [] }, JSON.stringify(answer))
  for (const answer of [
    {},
    { accepted: '2' },
    { accepted: -1 },
    { accepted: 1.5 },
    { status: 'submitted', task_id: 'task' },
    { errors: [{ ...errorOf(), severity: 'warning' }] },
  ]) {
    const outcome = told(answer)
    t.match(outcome, { accepted: 0, pending: 0, refused: 2 }, JSON.stringify(answer))
    t.match(outcome.errors, [unsaid(4), unsaid(5)])
    t.equal(outcome.errors.length, 2)
  }
  t.end()
})

test('each row that is not known to be accepted is told, whether or not the upstream names it', (t) => {
  const cases: [answer: object, accepted: number, errors: object[]][] = [
    [{ accepted: 0 }, 0, [refused(4), refused(5)]],
    [{ accepted: 0, errors: [errorOf()] }, 0, [refused(4), refused(5)]],
    [{ accepted: 0, errors: [errorOf('usage[1]')] }, 0, [refused(5), refused(4)]],
    [{ accepted: 1, errors: [errorOf('usage[1]')] }, 1, [refused(5)]],
    [{ accepted: 1, errors: [errorOf('usage[7]')] }, 1, [unsaid(4), unsaid(5)]],
    [{ accepted: 1 }, 1, [unsaid(4), unsaid(5)]],
    [{ accepted: 2, errors: [errorOf('usage[1]')] }, 2, [unsaid(5)]],
    [{ accepted: 1, errors: [errorOf('usage[0]'), errorOf('usage[1]')] }, 1, [unsaid(4), unsaid(5)]],
    [{ errors: [errorOf('usage[1]')] }, 0, [refused(5), unsaid(4)]],
    [{ errors: [errorOf('reporting_period')] }, 0, [refused(4), refused(5)]],
    [{ success: false, error: errorOf() }, 0, [refused(4), refused(5)]],
    [{ status: 'failed', errors: [errorOf('usage[1]')] }, 0, [refused(4), refused(5)]],
    [
      { status: 'failed', accepted: 1, adcp_error: errorOf('usage[1]'), errors: [errorOf('usage[1]')] },
      1,
      [refused(5)],
    ],
  ]
  for (const [answer, accepted, errors] of cases) {
    const outcome = told(answer)
    t.match(outcome, { accepted, pending: 0, refused: 2 - accepted }, JSON.stringify(answer))
    t.match(outcome.errors, errors)
    t.equal(outcome.errors.length, errors.length)
  }
  for (const answer of [{ accepted: 0, errors: [errorOf()] }, { errors: [errorOf()] }]) {
    for (const { details } of told(answer).errors) t.match(details, { upstream_code: 'BAD_ROW' })
  }
  t.end()
})

test('an error about the moment leaves the report open, unless rows were accepted', (t) => {
  const errors = [errorOf(undefined, 'RATE_LIMITED')]
  t.equal(understood({ errors }).kind, 'unknown')
  t.equal(understood({ status: 'failed', errors }).kind, 'unknown')
  t.equal(understood({ status: 'failed', accepted: 1, errors }).kind, 'done')
  t.end()
})
