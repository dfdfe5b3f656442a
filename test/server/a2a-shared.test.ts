/** Tasks of A2A: what their ids tell, and those that are kept for other processes while the storage is away. */
import { test } from 'tap'
import { systemClock } from '../../src/net/clock.js'
import { createA2aTasks, createSharedTasks } from '../../src/server/transports/a2a-tasks.js'
import { StorageUnavailable } from '../../src/store/database/storage-work.js'
import { NO_POSTGRES, shared } from '../store/support/storages.js'
import { BUYER_TOKEN, OTHER_TOKEN, startServer } from '../support/server-fixture.js'

test('while the storage is away a process knows its own tasks, and answers for those of others', async (t) => {
  const away = async () => {
    throw new StorageUnavailable('down')
  }
  const troubles: string[] = []
  const sharedTasks = createSharedTasks({
    handover: { keep: away, find: away, listed: away, these: away },
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

test('a listing shows the tasks of all processes by the same filters and pages', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const now = Date.now()
  const opened = async () => {
    const { handover } = await storage.open({ keys: ['a storage key of the tests, long enough'] })
    if (!handover) throw new Error('a shared storage keeps')
    const sharedTasks = createSharedTasks({ handover, clock: systemClock, onTrouble: t.fail })
    return { sharedTasks, tasks: createA2aTasks(() => now, sharedTasks) }
  }
  const [one, other] = [await opened(), await opened()]
  const payloadOf = (contextId: string, isError: boolean) => ({
    ...{
      status: 'completed',
      message: contextId,
      contextId,
      head: `{"of":"${contextId}"`,
      tail: '}',
      isError,
    },
    ...{ words: { text: () => 'm', json: () => '"m"' }, rows: [], comesAgain: false },
  })
  const keep = ({ tasks }: typeof one, contextId: string, isError = false) =>
    tasks.keep('buyer', { payload: payloadOf(contextId, isError), profiled: false }, now)
  const failed = keep(one, 'failed', true)
  keep(one, 'failed')
  const ids = [failed, ...Array.from({ length: 60 }, (_, at) => keep(at % 2 ? one : other, 'c'))]
  one.tasks.keep('another', { payload: payloadOf('failed', true), profiled: false }, now)
  await Promise.all([one.sharedTasks.close(), other.sharedTasks.close()])
  for (const { tasks } of [one, other]) {
    const wanted = { context: 'failed', state: 'TASK_STATE_FAILED' }
    t.match(await tasks.list('buyer', wanted, { most: 50 }), {
      tasks: [{ id: failed, content: { data: '{"of":"failed"}' } }],
      ...{ total: 1, next: undefined },
    })
    t.equal((await tasks.list('buyer', { since: now + 1 }, { most: 50 })).total, 0)
    const first = await tasks.list('buyer', {}, { most: 40 })
    if (!first.next) throw new Error('there are more')
    const rest = await tasks.list('buyer', {}, { most: 40, after: first.next })
    const shown = new Set([...first.tasks, ...rest.tasks].map(({ id }) => id))
    t.same([first.total, shown.size, rest.next], [62, 62, undefined])
    t.ok(ids.every((id) => shown.has(id)))
  }
})
