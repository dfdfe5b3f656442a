import { onEveryStorage } from './support/storages.js'

const KEEP_MS = 30 * 24 * 60 * 60 * 1_000
const newest = { field: 'created_at', direction: 'desc' } as const
const task = (id: string, over = {}) =>
  ({
    id,
    caller: 'acme',
    type: 'activate_signal',
    status: 'submitted',
    upstream: 'northwind',
    upstreamTaskId: `nw-${id}`,
    request: { handle: 'sig_100%' },
    ...over,
  }) as const

onEveryStorage('a task is seen by its caller only', async (t, storage) => {
  const { tasks } = await storage.open()
  await tasks.create(task('a'))
  t.match(await tasks.get('acme', 'a'), { id: 'a', status: 'submitted', upstreamTaskId: 'nw-a' })
  t.equal(await tasks.get('other', 'a'), undefined)
  t.equal((await tasks.list('other', { ids: ['a'] }, newest, { limit: 10, offset: 0 })).total, 0)
})

onEveryStorage('a task that ended keeps its end', async (t, storage) => {
  const { tasks } = await storage.open()
  await tasks.create(task('a'))
  storage.clock.now += 10
  t.equal(await tasks.progress('a', { status: 'working' }), true)
  t.equal(await tasks.progress('a', { status: 'completed', result: { deployments: [] } }), true)
  t.equal(await tasks.progress('a', { status: 'failed', error: { code: 'X' } }), false)
  t.match(await tasks.get('acme', 'a'), { status: 'completed', completedAt: storage.clock.now })
  await tasks.forgetFinished(storage.clock.now - KEEP_MS, 10)
  t.ok(await tasks.get('acme', 'a'))
  storage.clock.now += KEEP_MS
  await tasks.forgetFinished(storage.clock.now - KEEP_MS, 10)
  t.equal(await tasks.get('acme', 'a'), undefined)
})

onEveryStorage('tasks are listed by filter, order and page', async (t, storage) => {
  const { tasks } = await storage.open()
  for (let index = 0; index < 6; index += 1) {
    await tasks.create(task(`t${index}`, { type: index % 2 ? 'get_signals' : 'activate_signal' }))
    storage.clock.now += 1
  }
  await tasks.progress('t1', { status: 'failed', error: {} })
  const ids = async (filter: object, limit = 10, offset = 0) => {
    const page = await tasks.list('acme', filter, newest, { limit, offset })
    return page.tasks.map(({ id }) => id)
  }
  t.same(await ids({}, 2, 1), ['t4', 't3'])
  t.same(await ids({ types: ['get_signals'], statuses: ['submitted'] }), ['t5', 't3'])
  t.same(await ids({ ids: ['t0', 't9'] }), ['t0'])
  t.same(await ids({ contains: '100%' }), ['t5', 't4', 't3', 't2', 't1', 't0'])
  t.same(await ids({ contains: '1%0' }), [], 'the caller has no wildcards')
  t.same(await ids({ contains: 'SIG_100%' }), [], 'to the letter, on both databases')
  t.same(await ids({ createdAfter: storage.clock.now - 2 }), ['t5'])
  t.same((await tasks.list('acme', {}, newest, { limit: 1, offset: 0 })).statuses, {
    submitted: 5,
    failed: 1,
  })
  t.equal((await tasks.list('acme', {}, newest, { limit: 1, offset: 0 })).total, 6)
})
