/** From a brief to a live deployment and back, and who may see the task (specification, "Operation activate_signal"). */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { freshKey } from '../wire.js'

const ACCOUNT = { brand: { domain: 'novamotors.example' }, operator: 'pinnacle-agency.example' }
const SEAT = { type: 'platform', platform: 'the-trade-desk', account: 'a-seat-that-takes-a-task' }
const POLLS = 100

function activationOf({ signal_agent_segment_id, option }) {
  return {
    idempotency_key: freshKey(),
    signal_agent_segment_id,
    pricing_option_id: option,
    destinations: [SEAT],
  }
}

/** A signal whose seller answers an activation for that seat with a task. */
async function pendingOne(call) {
  const { signals } = await call('get_signals', {
    account: ACCOUNT,
    signal_spec: 'electric vehicle intenders',
  })
  for (const signal of signals.slice(0, 10)) {
    for (const { pricing_option_id: option } of signal.pricing_options ?? []) {
      const request = { ...activationOf({ ...signal, option }), account: ACCOUNT }
      const answer = await call('activate_signal', request)
      if (answer.status === 'submitted') return { request, answer }
    }
  }
  throw new Error('no seller of the demo world answered with a task')
}

export const ACTIVATION = [
  {
    name: 'activation for an account that was never declared',
    release: '3.1',
    steps: {
      'a seller that needs time: submitted with a task': async ({ call }, state) => {
        const { request, answer } = await pendingOne(call)
        Object.assign(state, { request, task: answer.task_id })
        ok(answer.task_id)
      },
      'the task completes with the deployment as its result': async ({ call }, { task }) => {
        let answer
        for (let left = POLLS; left > 0 && answer?.status !== 'completed'; left -= 1) {
          answer = await call('get_task_status', { task_id: task, include_result: true })
          ok(['submitted', 'working', 'completed'].includes(answer.status), answer.status)
          await new Promise((resolve) => setTimeout(resolve, 50))
        }
        equal(answer.status, 'completed')
        equal(answer.result.deployments[0].is_live, true)
      },
      'list_tasks finds it by its id, for its account': async ({ call }, { task }) => {
        const { tasks } = await call('list_tasks', { account: ACCOUNT, filters: { task_ids: [task] } })
        deepEqual(
          tasks.map(({ task_id: id }) => id),
          [task],
        )
      },
      'for another account, or another caller, there is no such task': async ({ call, other }, { task }) => {
        const elsewhere = { ...ACCOUNT, operator: 'other-agency.example' }
        for (const [who, account] of [
          [call, elsewhere],
          [other, ACCOUNT],
        ]) {
          const { adcp_error: error } = await who('get_task_status', { task_id: task, account })
          equal(error.code, 'REFERENCE_NOT_FOUND')
          const { tasks } = await who('list_tasks', { account, filters: { task_ids: [task] } })
          deepEqual(tasks, [])
        }
      },
      'the same request is replayed': async ({ call }, { request }) => {
        equal((await call('activate_signal', request)).replayed, true)
      },
      'it is switched off': async ({ call }, { request }) => {
        const { pricing_option_id: _, ...rest } = request
        const off = { ...rest, action: 'deactivate', idempotency_key: freshKey() }
        const { status, deployments } = await call('activate_signal', off)
        ok(['completed', 'submitted'].includes(status), status)
        equal(deployments[0].is_live, false)
      },
      'usage is reported once': async ({ call }, { request }) => {
        const { signal_agent_segment_id, pricing_option_id } = request
        const usage = [
          {
            account: ACCOUNT,
            signal_agent_segment_id,
            pricing_option_id,
            vendor_cost: 12.5,
            currency: 'USD',
            impressions: 1_000,
          },
        ]
        const period = { start: '2026-11-01T00:00:00Z', end: '2026-11-20T00:00:00Z' }
        const report = { idempotency_key: freshKey(), reporting_period: period, usage }
        equal((await call('report_usage', report)).accepted, 1)
        equal((await call('report_usage', report)).replayed, true)
      },
    },
  },
]
