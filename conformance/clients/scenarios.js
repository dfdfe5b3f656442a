/**
 * Every task in every state that an answer of it can have. A scenario gives the request and what a client has to make of
 * the answer.
 */
import { freshKey } from '../wire.js'

const DESK = { type: 'platform', platform: 'the-trade-desk' }
const ACCOUNT = { brand: { domain: 'novamotors.example' }, operator: 'pinnacle-agency.example' }
const SPEC = 'electric vehicle intenders'

const completed = { status: 'completed' }
const failed = (code) => ({ status: 'failed', code })

/** A signal, and an option of the seller that answers an activation as wanted. */
async function choose(state, wanted) {
  const known = state.choices ?? new Map()
  state.choices = known
  if (!known.has(wanted)) known.set(wanted, await state.find(wanted))
  return known.get(wanted)
}

function activation({ signal, option }) {
  return {
    idempotency_key: freshKey(),
    account: ACCOUNT,
    signal_agent_segment_id: signal,
    pricing_option_id: option,
    destinations: [DESK],
  }
}

/** An activation that its upstream goes on with, so that its task can come to stand as the next scenario wants it. */
const underWay = (state) => ({
  task: 'activate_signal',
  state: `submitted, to be ${state}`,
  want: { status: 'submitted', named: true },
  text: ({ task_id: taskId }) => taskId,
  request: async (known) => activation(await choose(known, 'submitted')),
  learn: (known, { taskId }) => {
    known.taskId = taskId
  },
})

/** The task of an activation whose upstream says that it stands so. */
const taskIs = (state) => ({
  task: 'get_task_status',
  state,
  want: { status: state },
  patient: true,
  before: (world) => world.unfinishedTasksAre(state),
  request: ({ taskId }) => ({ task_id: taskId, include_result: true }),
  text: ({ task_id: taskId }) => taskId,
})

/** In order: later ones go on with the tasks of earlier ones. */
export const SCENARIOS = [
  { task: 'get_adcp_capabilities', state: 'completed', want: completed, request: () => ({}) },
  {
    task: 'get_signals',
    state: 'completed, brief',
    want: completed,
    request: () => ({ signal_spec: SPEC, time_budget: { interval: 60, unit: 'seconds' } }),
    text: ({ signals }) => signals[0].signal_agent_segment_id,
  },
  {
    task: 'get_signals',
    state: 'completed, asked in plain text',
    want: completed,
    words: 'signals for EV intenders in Germany',
    text: ({ ext }) => `countries ${ext.tributary.read_as.countries}`,
  },
  {
    task: 'get_signals',
    state: 'completed, wholesale',
    want: completed,
    request: () => ({ discovery_mode: 'wholesale', pagination: { max_results: 5 } }),
    learn: (state, { data }) => {
      state.version = data?.wholesale_feed_version
    },
  },
  {
    task: 'get_signals',
    state: 'completed, unchanged',
    want: completed,
    request: ({ version }) => ({
      discovery_mode: 'wholesale',
      if_wholesale_feed_version: version,
      pagination: { max_results: 5 },
    }),
  },
  {
    task: 'get_signals',
    state: 'failed',
    want: failed('INVALID_REQUEST'),
    request: () => ({ discovery_mode: 'wholesale', if_pricing_version: 'p' }),
  },
  {
    task: 'get_signals',
    state: 'submitted',
    want: { status: 'submitted', named: true },
    text: ({ task_id: taskId }) => taskId,
    before: (world) => world.meridianNeedsTimeForBriefs(true),
    request: () => ({
      signal_spec: `${SPEC} ${crypto.randomUUID().slice(0, 8)}`,
      time_budget: { interval: 1, unit: 'seconds' },
      push_notification_config: {
        url: 'http://127.0.0.1:9/hook',
        operation_id: 'op_conformance',
        authentication: { schemes: ['Bearer'], credentials: 'a-secret-of-at-least-32-characters-000' },
      },
    }),
    after: (world) => world.meridianNeedsTimeForBriefs(false),
  },
  {
    task: 'activate_signal',
    state: 'completed',
    want: completed,
    request: async (state) => activation(await choose(state, 'completed')),
    learn: (state, _, request) => {
      state.activated = request
    },
  },
  {
    task: 'activate_signal',
    state: 'completed, deactivated',
    want: completed,
    request: ({ activated: { pricing_option_id: _, ...rest } }) => ({
      ...rest,
      action: 'deactivate',
      idempotency_key: freshKey(),
    }),
  },
  {
    task: 'activate_signal',
    state: 'failed',
    want: failed('REFERENCE_NOT_FOUND'),
    request: async (state) => ({
      ...activation(await choose(state, 'completed')),
      signal_agent_segment_id: 'sig_of_nobody',
    }),
  },
  underWay('working'),
  taskIs('working'),
  { ...taskIs('input-required'), after: (world) => world.release() },
  {
    task: 'get_task_status',
    state: 'completed',
    want: completed,
    patient: true,
    request: ({ taskId }) => ({ task_id: taskId, include_result: true }),
  },
  {
    task: 'get_task_status',
    state: 'refused',
    want: failed('REFERENCE_NOT_FOUND'),
    request: () => ({ task_id: 'task_of_nobody' }),
  },
  ...['failed', 'rejected', 'canceled'].flatMap((state) => [underWay(state), taskIs(state)]),
  { task: 'list_tasks', state: 'completed', want: completed, request: () => ({}) },
  {
    task: 'sync_accounts',
    state: 'completed',
    want: completed,
    request: () => ({ idempotency_key: freshKey(), accounts: [{ ...ACCOUNT, billing: 'operator' }] }),
  },
  {
    task: 'sync_accounts',
    state: 'failed',
    want: failed('INVALID_REQUEST'),
    request: () => ({ idempotency_key: freshKey(), accounts: 'none' }),
  },
  { task: 'list_accounts', state: 'completed', want: completed, request: () => ({}) },
  {
    task: 'report_usage',
    state: 'completed',
    want: completed,
    request: async (state) => {
      const { signal, option } = await choose(state, 'completed')
      const used = { signal_agent_segment_id: signal, pricing_option_id: option, account: ACCOUNT }
      return {
        idempotency_key: freshKey(),
        reporting_period: { start: '2026-11-01T00:00:00Z', end: '2026-11-20T00:00:00Z' },
        usage: [{ ...used, vendor_cost: 1, currency: 'USD', impressions: 1_000 }],
      }
    },
  },
]

/**
 * Finds what `choose` asks for with plain calls, so that the client under test is asked once a scenario. `call` is another
 * caller's, whose activations do not stand in the way.
 */
export function finder(call) {
  return async (wanted) => {
    const { signals } = await call('get_signals', { account: ACCOUNT, signal_spec: SPEC })
    for (const { signal_agent_segment_id: signal, pricing_options: options = [] } of signals) {
      for (const { pricing_option_id: option } of options) {
        const { status } = await call('activate_signal', activation({ signal, option }))
        if (status === wanted) return { signal, option }
      }
    }
    throw new Error(`no seller answers ${wanted}`)
  }
}
