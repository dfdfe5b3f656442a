import { test } from 'tap'
import { understand } from '../../src/activation/upstream-answer.js'
import type { CallOutcome } from '../../src/upstreams/upstreams.js'

const answered = (payload: Record<string, unknown>): CallOutcome => ({ kind: 'answer', payload })
const error = (code: string, more: object = {}): CallOutcome => ({
  kind: 'error',
  error: { code, message: 'the agent says <secret>', ...more },
})
const failed = (reason: Extract<CallOutcome, { kind: 'failed' }>['reason']): CallOutcome => ({
  kind: 'failed',
  reason,
  message: 'x',
})

const first = { upstream: 'northwind', errorsRefuse: true, mayHaveActed: false }
const repeated = { ...first, mayHaveActed: true }

test('only a refusal for good ends a call', (t) => {
  const undecided: CallOutcome[] = [
    ...(
      ['timeout', 'unreachable', 'server_error', 'too_large', 'protocol_error', 'rate_limited'] as const
    ).map(failed),
    ...['SERVICE_UNAVAILABLE', 'RATE_LIMITED', 'IDEMPOTENCY_IN_FLIGHT'].map((code) => error(code)),
    error('ANYTHING', { recovery: 'transient' }),
    answered({ status: 'completed', errors: [{ code: 'RATE_LIMITED' }] }),
  ]
  for (const outcome of undecided)
    t.equal(understand(outcome, first).kind, 'unknown', JSON.stringify(outcome))
  t.match(understand(error('RATE_LIMITED', { retryAfterMs: 7_200_000 }), first), { retryAfter: 3_600 })
  t.equal(understand(error('TERMS_REJECTED'), first).kind, 'refused')
  t.equal(understand(answered({ errors: [{ code: 'TERMS_REJECTED' }] }), first).kind, 'refused')
  t.end()
})

test('a call that never left decides nothing about an attempt before it', (t) => {
  for (const reason of [
    'refused',
    'unresolvable',
    'unauthorized',
    'backing_off',
    'unknown_upstream',
  ] as const) {
    t.match(understand(failed(reason), first), { kind: 'not_made', error: { code: 'SERVICE_UNAVAILABLE' } })
    t.equal(understand(failed(reason), repeated).kind, 'unknown', reason)
  }
  t.end()
})

test('a key that the upstream holds already shows that the first attempt arrived', (t) => {
  t.equal(understand(error('IDEMPOTENCY_CONFLICT'), repeated).kind, 'done')
  t.equal(understand(error('IDEMPOTENCY_CONFLICT'), first).kind, 'refused')
  t.end()
})

test("an upstream's words are not passed on, its code is", (t) => {
  const cases: [string, string, string | undefined][] = [
    ['REFERENCE_NOT_FOUND', 'REFERENCE_NOT_FOUND', 'REFERENCE_NOT_FOUND'],
    ['GOVERNANCE_DENIED', 'INVALID_REQUEST', 'GOVERNANCE_DENIED'],
    ['AUTH_REQUIRED', 'SERVICE_UNAVAILABLE', 'AUTH_REQUIRED'],
    ['<script>', 'INVALID_REQUEST', undefined],
  ]
  for (const [said, code, told] of cases) {
    const understood = understand(error(said), first)
    t.match(understood, {
      kind: 'refused',
      error: { code, details: { upstream: 'northwind', upstream_code: told } },
    })
    t.notMatch(JSON.stringify(understood), /secret|script/)
  }
  t.end()
})

test('the field that an upstream names is passed on when it is one of the request', (t) => {
  const fieldOf = (field?: string) => {
    const understood = understand(error('INVALID_REQUEST', field === undefined ? {} : { field }), first)
    return understood.kind === 'refused' && understood.error.field
  }
  t.equal(fieldOf('destinations[0].account'), 'destinations[0].account')
  t.equal(fieldOf('pricing_option_id'), 'pricing_option_id')
  t.equal(fieldOf('<script>'), 'signal_agent_segment_id')
  t.equal(fieldOf(), 'signal_agent_segment_id')
  const inAnswer = answered({ errors: [{ code: 'INVALID_REQUEST', field: 'account' }] })
  t.match(understand(inAnswer, first), { error: { field: 'account' } })
  t.end()
})

test('work that goes on is told by a task id; without one the answer is what it is', (t) => {
  t.same(understand(answered({ status: 'submitted', task_id: 'up-1' }), first), {
    kind: 'submitted',
    taskId: 'up-1',
  })
  t.equal(understand(answered({ status: 'submitted' }), first).kind, 'done')
  t.equal(
    understand(answered({ deployments: [], errors: [{ severity: 'warning', code: 'X' }] }), first).kind,
    'done',
  )
  t.end()
})
