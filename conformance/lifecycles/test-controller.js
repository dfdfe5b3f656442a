/** What storyboards of 3.1 ask with comply_test_controller's help: discovery that is answered later, and who may force what. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { freshKey } from '../wire.js'

const ACCOUNT = {
  brand: { domain: 'novamotors.example' },
  operator: 'pinnacle-agency.example',
  sandbox: true,
}
const ELSEWHERE = { ...ACCOUNT, brand: { domain: 'otherbrand.example' }, operator: 'other-operator.example' }
const RESULT = {
  signals: [
    {
      signal_id: { source: 'agent_native', id: 'likely_ev_buyers' },
      signal_agent_segment_id: 'seg_async_likely_ev_buyers',
      name: 'Likely EV buyers',
      deployments: [{ type: 'platform', platform: 'example-dsp', is_live: false }],
    },
  ],
  cache_scope: 'public',
  context: { correlation_id: 'get_signals_async--terminal_result' },
}

function force(call, scenario, params = {}, account = ACCOUNT) {
  return call('comply_test_controller', { scenario, params, account, context: { correlation_id: scenario } })
}

async function declared(call, account) {
  const entry = { ...account, billing: 'operator' }
  const { accounts } = await call('sync_accounts', { idempotency_key: freshKey(), accounts: [entry] })
  return accounts[0].account_id
}

export const TEST_CONTROLLER = [
  {
    name: 'signals_baseline/get_signals_async',
    release: '3.1',
    steps: {
      'the next brief is forced to be answered later': async ({ call, transport }, state) => {
        state.task = `task_async_signals_nova_ev_${transport}`
        const params = { arm: 'submitted', task_id: state.task, message: 'Signal discovery is queued' }
        const { success, forced, context } = await force(call, 'force_get_signals_arm', params)
        deepEqual(
          { success, forced, context },
          {
            success: true,
            forced: { arm: 'submitted', task_id: state.task },
            context: { correlation_id: 'force_get_signals_arm' },
          },
        )
      },
      'a walk does not take it': async ({ call }) => {
        const page = { discovery_mode: 'wholesale', pagination: { max_results: 1 } }
        equal((await call('get_signals', { ...page, account: ACCOUNT })).status, 'completed')
      },
      'get_signals answers submitted, without signals': async ({ call, receiver }, { task }) => {
        const answer = await call('get_signals', {
          ...{ discovery_mode: 'brief', account: ACCOUNT, pagination: { max_results: 5 } },
          signal_spec: 'In-market EV buyers near dealerships with high purchase intent',
          push_notification_config: {
            ...{ url: receiver.url, operation_id: 'op_get_signals_async_terminal' },
            authentication: { schemes: ['Bearer'], credentials: 'a-secret-of-at-least-32-characters-000' },
          },
        })
        equal(answer.status, 'submitted')
        equal(answer.task_id, task)
        ok(!('signals' in answer) && !('result' in answer))
      },
      'list_tasks finds it with its webhook, for its account alone': async ({ call }, { task }) => {
        const filters = { task_ids: [task], task_type: 'get_signals', has_webhook: true }
        const own = await call('list_tasks', { account: ACCOUNT, filters })
        equal(own.query_summary.total_matching, 1)
        equal(own.tasks[0].domain, 'signals')
        equal(own.tasks[0].status, 'submitted')
        const other = await call('list_tasks', { account: ELSEWHERE, filters })
        equal(other.query_summary.total_matching, 0)
      },
      'it is completed with a given result': async ({ call }, { task }) => {
        const params = { task_id: task, result: RESULT }
        equal((await force(call, 'force_task_completion', params, ELSEWHERE)).error, 'NOT_FOUND')
        const { success, current_state: state } = await force(call, 'force_task_completion', params)
        ok(success)
        equal(state, 'completed')
      },
      'another account has no such task': async ({ call }, { task }) => {
        const { adcp_error: error } = await call('get_task_status', { task_id: task, account: ELSEWHERE })
        equal(error.code, 'REFERENCE_NOT_FOUND')
      },
      'polling gives the result unchanged': async ({ call }, { task }) => {
        const asked = { task_id: task, include_result: true, account: ACCOUNT }
        const { status, has_webhook: has, result } = await call('get_task_status', asked)
        equal(status, 'completed')
        ok(has)
        deepEqual(result, RESULT)
      },
      'the webhook brings it too': async ({ receiver }, { task }) => {
        const { operation_id: operation, status, result } = await receiver.notice(task)
        equal(operation, 'op_get_signals_async_terminal')
        equal(status, 'completed')
        deepEqual(result, RESULT)
      },
    },
  },
  {
    name: 'comply_controller_mode_gate',
    release: '3.1',
    steps: {
      'for a live account nothing can be forced': async ({ call }) => {
        const { sandbox: _, ...live } = ACCOUNT
        const { success, error, context } = await force(call, 'force_creative_status', {}, live)
        equal(success, false)
        equal(error, 'FORBIDDEN')
        deepEqual(context, { correlation_id: 'force_creative_status' })
      },
      'nor for one that only calls itself a sandbox': async ({ call }) => {
        const { sandbox: _, ...live } = ACCOUNT
        const claimed = { account_id: await declared(call, live), sandbox: true }
        equal((await force(call, 'list_scenarios', {}, claimed)).error, 'FORBIDDEN')
      },
      'nor for nobody': async ({ call }) => {
        equal((await call('comply_test_controller', { scenario: 'list_scenarios' })).error, 'FORBIDDEN')
      },
    },
  },
  {
    name: 'pagination_integrity_list_accounts, with seeded accounts',
    release: '3.1',
    steps: {
      'three accounts are seeded': async ({ call }, state) => {
        const domains = ['one', 'two', 'three'].map((name) => `${name}.seeded.example`)
        state.ids = domains.map((domain) => `acc_${domain.replaceAll('.', '_')}`)
        for (const [at, domain] of domains.entries()) {
          const fixture = { brand: { domain }, operator: 'pinnacle-agency.example' }
          const params = { account_id: state.ids[at], fixture }
          ok((await force(call, 'seed_account', params)).success)
          ok((await force(call, 'seed_account', params)).success, 'and again')
        }
      },
      'a walk of small pages finds each once': async ({ call }, { ids }) => {
        const found = []
        let cursor
        do {
          const pagination = { max_results: 2, ...(cursor && { cursor }) }
          const { accounts, pagination: next } = await call('list_accounts', { sandbox: true, pagination })
          found.push(...accounts.map(({ account_id: id }) => id))
          equal(next.has_more, next.cursor !== undefined)
          cursor = next.cursor
        } while (cursor)
        equal(new Set(found).size, found.length)
        deepEqual(
          ids.filter((id) => !found.includes(id)),
          [],
        )
      },
    },
  },
]
