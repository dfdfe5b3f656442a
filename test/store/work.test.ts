import { onEveryStorage } from './support/storages.js'

onEveryStorage(
  'the work of all callers is told newest first, without what was said in it',
  async (t, storage) => {
    const { work, tasks, jobs, idempotency, subscriptions } = await storage.open()
    t.same([await work.tasks(9), await work.usage(9), await work.deliveries(9)], [[], [], []])

    const task = { type: 'activate_signal', status: 'submitted', request: { note: 'said' } } as const
    await tasks.create({ ...task, id: 'task-1', caller: 'acme', upstream: 'northwind' })
    storage.clock.now += 10
    await tasks.create({ ...task, id: 'task-2', caller: 'other' })
    t.match(await work.tasks(9), [
      { id: 'task-2', caller: 'other', status: 'submitted', upstream: undefined },
      { id: 'task-1', caller: 'acme', upstream: 'northwind' },
    ])
    t.equal((await work.tasks(1)).length, 1)
    t.notMatch(JSON.stringify(await work.tasks(9)), /said/)

    await idempotency.bind({ caller: 'acme', key: 'k1', task: 'report_usage', fingerprint: 'f' })
    await idempotency.bind({ caller: 'acme', key: 'k2', task: 'activate_signal', fingerprint: 'f' })
    const call = { kind: 'call', lane: 'https://n.example/mcp', caller: 'acme' }
    await jobs.add({ ...call, id: 'c1', key: 'k1', data: { args: { note: 'said' }, rows: [0, 1] } })
    await jobs.add({ ...call, id: 'c2', key: 'k2', data: { rows: [] } })
    await jobs.add({ ...call, id: 'c3', key: 'k1', caller: 'other', data: { rows: [] } })
    const usage = await work.usage(9)
    t.match(usage, [{ caller: 'acme', agentUrl: 'https://n.example/mcp', rows: 2, state: 'open' }])
    t.equal(usage.length, 1, 'reports of usage alone')
    t.notMatch(JSON.stringify(usage), /said/)

    const url = 'https://hooks.acme.example/feed?secret=said'
    const config = { url, authentication: { credentials: 'said' } }
    const pending = [{ key: 'e1', type: 'signal.priced', body: '{}' }]
    await jobs.add({
      ...call,
      kind: 'feed_events',
      id: 's1',
      data: { pending, failures: 2, failingSince: 5 },
    })
    await subscriptions.add({ caller: 'acme', accountId: 'acc', subscriberId: 'mirror', job: 's1', config })
    await subscriptions.add({ caller: 'acme', accountId: 'acc', subscriberId: 'gone', job: 's2', config })
    await subscriptions.suspend('s2', { reason: 'gave up', at: 7 })
    const told = new Map((await work.deliveries(9)).map((one) => [one.subscriber, one]))
    t.match(told.get('mirror'), {
      ...{ caller: 'acme', account: 'acc', host: 'hooks.acme.example', suspended: undefined },
      stream: { failures: 2 },
      nextAttemptAt: Number,
    })
    t.match(told.get('gone'), { suspended: { reason: 'gave up' }, stream: undefined })
    t.notMatch(JSON.stringify([...told.values()]), /said/)
  },
)
