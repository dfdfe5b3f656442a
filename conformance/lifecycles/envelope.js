/** The envelope around every answer, failures too (specification, "Response body"). */
import { deepEqual, equal, ok } from 'node:assert/strict'

const CONTEXT = { correlation_id: 'conformance', nested: { list: [1, 'é'] } }
const CALLS = [
  ['get_adcp_capabilities', {}],
  ['get_signals', { signal_spec: 'coffee drinkers' }],
  ['list_accounts', {}],
  ['list_tasks', {}],
]
const REFUSED = [
  ['get_signals', { discovery_mode: 'wholesale', signal_spec: 'both at once' }],
  ['get_task_status', { task_id: 'task_of_nobody' }],
  ['activate_signal', { signal_agent_segment_id: 'x' }],
]

export const ENVELOPE = [
  {
    name: 'envelope',
    release: '3.1',
    steps: {
      'context comes back as it was sent': async ({ call }) => {
        for (const [task, args] of [...CALLS, ...REFUSED]) {
          deepEqual((await call(task, { ...args, context: CONTEXT })).context, CONTEXT, task)
        }
      },
      'status stands on every answer, under no other name': async ({ call }) => {
        for (const [task, args] of CALLS) {
          const answer = await call(task, args)
          equal(answer.status, 'completed', task)
          ok(!('task_status' in answer) && !('response_status' in answer), task)
        }
      },
      'a failure carries its error twice, with recovery': async ({ call }) => {
        for (const [task, args] of REFUSED) {
          const { status, adcp_error: error, errors } = await call(task, args)
          equal(status, 'failed', task)
          deepEqual(errors, [error], task)
          ok(['correctable', 'transient', 'terminal'].includes(error.recovery), `${task}: recovery`)
        }
      },
      'idempotency_key and ext are accepted on reads': async ({ call }) => {
        for (const [task, args] of CALLS) {
          const answer = await call(task, {
            ...args,
            idempotency_key: 'read-key-0000000001',
            ext: { vendor: { a: 1 } },
          })
          equal(answer.status, 'completed', task)
        }
      },
    },
  },
]
