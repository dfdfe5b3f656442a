import { test } from 'tap'
import { readTaskAnswer } from '../../src/activation/task-answer.js'
import { readMessages } from '../../src/upstreams/agent/answer.js'
import { TRADE_DESK } from './support/parts.js'

/** What is said of the task `theirs` by data that the A2A task `carrier` brings. */
function wordFor(data: object, state = 'TASK_STATE_COMPLETED') {
  const task = { id: 'carrier', status: { state }, artifacts: [{ parts: [{ data }] }] }
  const message = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, result: { task } }))
  const read = readMessages({ messages: [message], id: 1, as: 'a2a', bounds: {} as never })
  if (read.kind !== 'answer') throw new Error(read.kind)
  return readTaskAnswer(read.outcome, {
    ...{ upstream: 'north', taskId: 'theirs', wish: { wantsLive: true, destinations: [TRADE_DESK] } },
  })
}

test('an answer over A2A that names the task that brought it names no other', async (t) => {
  const deployments = [{ ...TRADE_DESK, is_live: true }]
  const done = { status: 'completed', result: { deployments } }
  t.match(wordFor({ ...done, task_id: 'carrier' }), { kind: 'completed' })
  t.match(wordFor({ ...done, task_id: 'theirs' }), { kind: 'completed' })
  t.match(wordFor({ ...done, task_id: 'another' }), { kind: 'doubtful' })
  const task = { task_id: 'another', status: 'completed' }
  t.match(wordFor({ ...done, task_id: 'carrier', task }), { kind: 'doubtful' })
})

test('the end of the A2A task that brings an error is not the end of the task asked about', async (t) => {
  const failed = { status: 'failed', adcp_error: { code: 'TERMS_REJECTED', message: 'no' } }
  t.match(wordFor({ ...failed, task_id: 'theirs' }, 'TASK_STATE_FAILED'), { kind: 'ended' })
  t.match(wordFor({ ...failed, task_id: 'carrier' }, 'TASK_STATE_FAILED'), { kind: 'doubtful' })
  t.match(wordFor({ ...failed, task_id: 'another' }, 'TASK_STATE_FAILED'), { kind: 'doubtful' })
})

test('a task that failed is done where a wanted destination is as it was wanted', async (t) => {
  const live = { ...TRADE_DESK, is_live: true }
  const another = { type: 'platform', platform: 'another', is_live: true }
  const failed = { status: 'failed', task_id: 'theirs', errors: [{ code: 'TERMS_REJECTED', message: 'no' }] }
  const ways: ((deployed: object) => object)[] = [
    (deployed) => ({ ...failed, ...deployed }),
    (deployed) => ({ ...failed, result: deployed }),
    (deployed) => ({ task: { ...failed, result: deployed } }),
  ]
  for (const told of ways) {
    t.match(wordFor(told({ deployments: [live] })), { kind: 'completed' })
    t.match(wordFor(told({ deployments: [another] })), { kind: 'ended' })
  }
  const ofAnother = { ...failed, task_id: 'another', deployments: [live] }
  t.match(wordFor(ofAnother), { kind: 'doubtful' }, 'what it shows is of another task')
})
