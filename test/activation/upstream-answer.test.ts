import { test } from 'tap'
import { activationJudge, readStatus, readTold, understand } from '../../src/activation/upstream-answer.js'
import { usageJudge } from '../../src/activation/usage-answer.js'
import type { AdcpError } from '../../src/adcp/answer.js'
import type { AgentOutcome } from '../../src/upstreams/agent/agent.js'
import { readMessages } from '../../src/upstreams/agent/answer.js'
import { NO_ROWS } from '../../src/upstreams/rows/read-rows.js'

const answered = (payload: Record<string, unknown>): AgentOutcome => ({
  kind: 'answer',
  payload,
  rows: NO_ROWS,
})
const error = (code: string, more: object = {}): AgentOutcome => ({
  kind: 'error',
  error: { code, message: 'the agent says <secret>', ...more },
})
const failed = (reason: Extract<AgentOutcome, { kind: 'failed' }>['reason']): AgentOutcome => ({
  kind: 'failed',
  reason,
  message: 'x',
})

const place = (platform: string, is_live: boolean) => ({ type: 'platform' as const, platform, is_live })
const destinations = [
  { type: 'platform', platform: 'the-trade-desk' },
  { type: 'platform', platform: 'dv360' },
] as const
const judge = activationJudge({ wantsLive: true, destinations })
const first = { upstream: 'northwind', judge, mayHaveActed: false }
const off = { ...first, judge: activationJudge({ wantsLive: false, destinations }) }
const repeated = { ...first, mayHaveActed: true }

test('only a refusal for good ends a call', (t) => {
  const undecided: AgentOutcome[] = [
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

test('a failure is told wherever it stands, and not where something was done all the same', (t) => {
  const errors = [{ code: 'TERMS_REJECTED' }]
  const told = [
    { status: 'completed', result: { errors } },
    { status: 'completed', result: { adcp_error: errors[0] } },
    { task: { status: { state: 'TASK_STATE_FAILED' } } },
    { deployments: [place('dv360', false)], errors },
  ]
  for (const payload of told)
    t.equal(understand(answered(payload), first).kind, 'refused', JSON.stringify(payload))
  const deployments = [place('the-trade-desk', true), place('dv360', false)]
  t.equal(understand(answered({ deployments, errors }), first).kind, 'done', 'one of two is live')
  t.equal(understand(answered({ deployments: deployments.slice(0, 1), errors }), off).kind, 'refused')
  t.end()
})

test('what a failed answer shows of a wanted destination counts, however the failure is told', (t) => {
  const error = { code: 'TERMS_REJECTED', message: 'no' }
  const failures: [as: 'mcp' | 'a2a', (data: object) => object][] = [
    ['mcp', (data) => ({ isError: true, content: [], structuredContent: { errors: [error], ...data } })],
    ['mcp', (data) => ({ isError: true, content: [{ type: 'text', text: JSON.stringify(data) }] })],
    ['mcp', (data) => ({ structuredContent: { status: 'failed', errors: [error], ...data } })],
    ['mcp', (data) => ({ structuredContent: { adcp_error: error, ...data } })],
    [
      'a2a',
      (data) => ({
        task: { id: 't', status: { state: 'TASK_STATE_FAILED' }, artifacts: [{ parts: [{ data }] }] },
      }),
    ],
  ]
  for (const [as, failure] of failures) {
    const heard = (...deployments: object[]) => {
      const result = failure({ deployments })
      const message = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, result }))
      const read = readMessages({ messages: [message], id: 1, as, bounds: {} })
      return read.kind === 'answer' ? read.outcome : failed('protocol_error')
    }
    const partly = heard(place('the-trade-desk', true), place('dv360', false))
    t.equal(partly.kind, 'error')
    const shown = { kind: 'done', payload: { deployments: [{ is_live: true }, { is_live: false }] } }
    t.match(understand(partly, first), shown, 'one of two is live')
    t.match(understand(partly, off), shown, 'one of two is off')
    t.equal(understand(heard(place('dv360', true)), off).kind, 'refused')
    t.equal(understand(heard(place('dv360', false)), first).kind, 'refused')
    t.equal(understand(heard(place('another', true)), first).kind, 'refused', 'nobody asked for that one')
  }
  t.end()
})

test('what an answer shows of destinations that nobody asked for is not what was done', (t) => {
  const errors = [{ code: 'TERMS_REJECTED' }]
  const deployments = [place('dv360', false), place('another', true)]
  t.equal(understand(answered({ deployments, errors }), first).kind, 'refused')
  const on = [place('dv360', true), place('another', false)]
  t.equal(understand(answered({ deployments: on, errors }), off).kind, 'refused')
  t.equal(understand(answered({ status: 'submitted', deployments }), first).kind, 'submitted')
  const ofAccount = { ...place('dv360', true), account: 'seat-1' }
  t.equal(understand(answered({ deployments: [ofAccount], errors }), first).kind, 'done', 'an account of it')
  t.end()
})

test('the error that counts is a real one, whatever its place', (t) => {
  const warning = { code: 'DEPRECATED', message: 'soon', severity: 'warning' }
  const real = { code: 'TERMS_REJECTED', message: 'no' }
  const heard = (data: object) => {
    const message = Buffer.from(
      JSON.stringify({ jsonrpc: '2.0', id: 1, result: { structuredContent: data } }),
    )
    const read = readMessages({ messages: [message], id: 1, as: 'mcp', bounds: {} })
    return understand(read.kind === 'answer' ? read.outcome : failed('protocol_error'), first)
  }
  const refused = { kind: 'refused', error: { details: { upstream_code: 'TERMS_REJECTED' } } }
  for (const data of [
    { errors: [warning, real] },
    { errors: [null, warning, real] },
    { status: 'failed', errors: [warning, real] },
    { result: { errors: [warning, real] } },
    { error: warning, errors: [real] },
    { status: 'failed', errors: [warning], error: real },
  ])
    t.match(heard(data), refused, JSON.stringify(data))
  t.equal(heard({ errors: [warning] }).kind, 'done', 'a warning alone is no failure')
  t.equal(heard({ errors: ['it failed'] }).kind, 'refused', 'a text is one')
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
    ['JSONRPC_-32603', 'INVALID_REQUEST', 'JSONRPC_-32603'],
    ['validation_error', 'INVALID_REQUEST', 'validation_error'],
    ['billing/no-credit:v2', 'INVALID_REQUEST', 'billing/no-credit:v2'],
    ['X'.repeat(65), 'INVALID_REQUEST', undefined],
    ['<script>', 'INVALID_REQUEST', undefined],
    ['the agent said <secret>', 'INVALID_REQUEST', undefined],
    ['', 'INVALID_REQUEST', undefined],
  ]
  for (const [said, code, told] of cases) {
    const understood = understand(error(said), first)
    t.match(understood, {
      kind: 'refused',
      error: { code, details: { upstream: 'northwind', upstream_code: told } },
    })
    t.notMatch(JSON.stringify(understood), /secret|script/)
    const names = JSON.stringify(understood).includes('See details.upstream_code')
    t.equal(names, told !== undefined && code !== 'SERVICE_UNAVAILABLE', `${said}: only a code that is there`)
  }
  for (const [said, told] of [
    ['terms', 'terms'],
    [403, '403'],
    [undefined, undefined],
    [{}, undefined],
  ]) {
    const understood = understand(answered({ errors: [{ code: said }] }), first)
    const { details } = (understood.kind === 'refused' ? understood.error : {}) as AdcpError
    t.strictSame(details, { upstream: 'northwind', ...(told !== undefined && { upstream_code: told }) })
  }
  t.end()
})

test('what an upstream has no word for is refused without asking it, and with what to do instead', (t) => {
  for (const [field, suggestion] of [
    ['action', /whoever runs the upstream/],
    ['destinations', /one request for each platform/],
    ['account', /without account/],
  ] as const) {
    const unsent = error('UNSUPPORTED_FEATURE', { unsent: true, field })
    const message = new RegExp(`told ${field} as it stands in the request; it was not asked`)
    t.match(understand(unsent, first), { kind: 'refused', error: { message, suggestion } })
  }
  t.end()
})

test('what the last artifact states counts, however many there are', (t) => {
  const destination = { type: 'platform', platform: 'dv360' } as const
  const artifact = (is_live: boolean) => ({
    parts: [{ data: { deployments: [{ ...destination, is_live }] } }],
  })
  const artifacts = [...Array.from({ length: 25 }, () => artifact(false)), artifact(true)]
  t.match(readTold({ artifacts }, [destination]), { deployments: [{ is_live: true }], unknown: [] })
  t.end()
})

test('of a deployment nothing is told that a strict client would refuse', (t) => {
  const place = { type: 'platform', platform: 'dv360' } as const
  const agent = (agent_url: string) => ({ type: 'agent', agent_url, is_live: true })
  const told = (...deployments: object[]) => readTold({ deployments }, [place]).deployments
  const live = { ...place, is_live: true }
  for (const more of [
    { estimated_activation_duration_minutes: Number.POSITIVE_INFINITY },
    { estimated_activation_duration_minutes: -1 },
    { deployed_at: '2026-01-01' },
    { deployed_at: 'Jan 1 2026' },
    { deployed_at: '2026-02-30T00:00:00Z' },
    { activation_key: { type: 'segment_id', segment_id: 'half \ud800' } },
    { activation_key: { type: 'key_value', key: 'a', value: 'nul \u0000' } },
    { account: '' },
    { account: null },
  ])
    t.strictSame(told({ ...live, ...more }), [live], JSON.stringify(more))
  t.strictSame(
    told(agent('not a url'), agent('https://sales.example/mcp'), agent('https://bücher.example/')),
    [agent('https://sales.example/mcp')],
  )
  const moment = { deployed_at: '2026-01-01T00:00:00Z' }
  t.strictSame(told({ ...live, ...moment }), [{ ...live, ...moment }])
  for (const account of ['half \ud800', 7])
    t.strictSame(told({ ...live, account }), [], 'what is said of an account is not said of all')
  const many = Array.from({ length: 1_100 }, (_, at) => ({ ...live, platform: `p${at}` }))
  t.equal(told(...many).length, 1_000)
  t.end()
})

test('the state of a task is read in any spelling of it', (t) => {
  for (const [said, state] of [
    ['cancelled', 'canceled'],
    ['TASK_STATE_CANCELLED', 'canceled'],
    ['TASK_STATE_INPUT_REQUIRED', 'input-required'],
    ['deployed', 'completed'],
    ['pending', 'submitted'],
    ['processing', 'working'],
  ])
    t.equal(readStatus({ result: { status: { state: said } } }), state)
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

test('work that goes on is told by its status, with a task id or without', (t) => {
  t.same(understand(answered({ status: 'submitted', task_id: 'up-1' }), first), {
    kind: 'submitted',
    taskId: 'up-1',
  })
  for (const status of [
    'working',
    'pending',
    'input-required',
    'auth-required',
    'processing',
    'SUBMITTED',
    'TASK_STATE_WORKING',
  ])
    t.equal(understand(answered({ status, task_id: 'up-1' }), first).kind, 'submitted', status)
  t.equal(understand(answered({ status: 'deployed', task_id: 'up-1' }), first).kind, 'done')
  for (const task_id of [undefined, '', 7, 'u'.repeat(256)]) {
    const said = answered({ status: 'submitted', task_id })
    t.same(understand(said, first), { kind: 'submitted' }, `task ${task_id}`)
    t.equal(understand(said, { ...first, judge: usageJudge(1) }).kind, 'done', 'of no other call')
  }
  const done = { deployments: [{ type: 'platform', platform: 'the-trade-desk', is_live: true }] }
  t.equal(understand(answered({ status: 'submitted', ...done }), first).kind, 'done')
  t.equal(
    understand(answered({ deployments: [], errors: [{ severity: 'warning', code: 'X' }] }), first).kind,
    'done',
  )
  t.end()
})
