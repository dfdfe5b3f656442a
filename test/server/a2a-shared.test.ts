/** Tasks of A2A: what their ids tell, and those that are kept for other processes while the storage is away. */
import { test } from 'tap'
import { systemClock } from '../../src/net/clock.js'
import { createSharedTasks } from '../../src/server/transports/a2a-tasks.js'
import { StorageUnavailable } from '../../src/store/database/storage-work.js'
import { BUYER_TOKEN, OTHER_TOKEN, startServer } from '../support/server-fixture.js'

test('while the storage is away a process knows its own tasks, and answers for those of others', async (t) => {
  const away = async () => {
    throw new StorageUnavailable('down')
  }
  const troubles: string[] = []
  const sharedTasks = createSharedTasks({
    handover: { keep: away, find: away, newest: away },
    clock: systemClock,
    onTrouble: (message) => void troubles.push(message),
  })
  const { post } = await startServer(t, { sharedTasks })
  const bearer = { authorization: `Bearer ${BUYER_TOKEN}` }
  const ask = async (method: string, params: object) =>
    (await post('/a2a', { jsonrpc: '2.0', id: 1, method, params }, bearer)).json
  const data = { skill: 'get_adcp_capabilities', input: {} }
  const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ data }] }
  const { id } = (await ask('SendMessage', { message })).result.task
  t.equal((await ask('GetTask', { id })).result.id, id)
  t.equal((await ask('ListTasks', {})).result.tasks.length, 1)
  const foreign = `a2a_${'x'.repeat(16)}_7`
  t.equal((await ask('GetTask', { id: foreign })).error.code, -32_001)
  const continued = { message: { ...message, taskId: foreign } }
  t.equal((await ask('SendMessage', continued)).error.code, -32_001)
  await sharedTasks.close()
  t.ok(troubles.length > 0, 'and whoever runs it is told')
})

test('a caller learns from the ids of its tasks nothing of the tasks of others', async (t) => {
  const { post } = await startServer(t)
  const data = { skill: 'get_adcp_capabilities', input: {} }
  const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ data }] }
  const ask = async (method: string, params: object, token: string) =>
    (await post('/a2a', { jsonrpc: '2.0', id: 1, method, params }, { authorization: `Bearer ${token}` })).json
  const idOf = async (token: string): Promise<string> =>
    (await ask('SendMessage', { message }, token)).result.task.id
  const ids = [await idOf(BUYER_TOKEN), await idOf(OTHER_TOKEN), await idOf(BUYER_TOKEN)]
  const ends = ids.map((id) => id.slice(id.lastIndexOf('_')))
  t.notMatch(ends.join(), /_\d+(,|$)/)
  for (const id of [ids[0], ids[2]]) {
    t.equal((await ask('GetTask', { id }, BUYER_TOKEN)).result.id, id)
    t.equal((await ask('GetTask', { id }, OTHER_TOKEN)).error.code, -32_001, 'of somebody else')
    t.equal((await ask('CancelTask', { id }, OTHER_TOKEN)).error.code, -32_001)
    const continued = { message: { ...message, taskId: id } }
    t.equal((await ask('SendMessage', continued, OTHER_TOKEN)).error.code, -32_001)
    t.equal((await ask('GetTask', { id: `${id}A` }, BUYER_TOKEN)).error.code, -32_001, 'only as it was given')
  }
})
