/** An upstream that asks back: the state is told in the answer, with the task to go on with, to clients of either transport. */
import { test } from 'tap'
import { Type } from '../../src/adcp/schema.js'
import type { Task } from '../../src/tasks/task.js'
import { BUYER_TOKEN, startServer } from '../support/server-fixture.js'

const asksBack: Task = {
  ...{ name: 'activate_signal', title: 'Activate', description: 'Activates.', mutating: true },
  request: Type.Object({}),
  handle: () => ({
    ...{ kind: 'answer', status: 'input-required', message: 'The upstream asks for an approval.' },
    fields: { task_id: 'task_asked' },
  }),
}
const data = {
  status: 'input-required',
  task_id: 'task_asked',
  message: 'The upstream asks for an approval.',
}

test('a task that asks back is open, named, and no failure', async (t) => {
  const { post } = await startServer(t, { tasks: [asksBack] })
  const bearer = { authorization: `Bearer ${BUYER_TOKEN}` }
  const ask = async (path: string, method: string, params: object, more: Record<string, string>) =>
    (await post(path, { jsonrpc: '2.0', id: 1, method, params }, { ...bearer, ...more })).json.result

  const tool = { name: 'activate_signal', arguments: {} }
  const mcp = await ask('/mcp', 'tools/call', tool, { 'mcp-protocol-version': '2025-06-18' })
  t.match(mcp, { structuredContent: data, content: [{ text: /task_asked/ }] })
  t.notOk(mcp.isError)

  const message = {
    messageId: 'm',
    role: 'ROLE_USER',
    parts: [{ data: { skill: 'activate_signal', input: {} } }],
  }
  const { task } = await ask('/a2a', 'SendMessage', { message }, { 'a2a-version': '1.0' })
  t.match(task, {
    status: { state: 'TASK_STATE_COMPLETED' },
    artifacts: [{ parts: [{ data }, { text: /task_asked/ }], metadata: { adcp_task_id: 'task_asked' } }],
  })

  const older = {
    ...{ kind: 'message', messageId: 'm', role: 'user' },
    parts: [{ kind: 'data', data: { skill: 'activate_signal', parameters: {} } }],
  }
  t.match(await ask('/a2a', 'message/send', { message: older }, {}), {
    status: { state: 'completed' },
    artifacts: [
      { parts: [{ kind: 'data', data }, { kind: 'text' }], metadata: { adcp_task_id: 'task_asked' } },
    ],
  })
})
