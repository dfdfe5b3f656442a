import { sql } from 'kysely'
import { DEFAULT_RETENTION } from '../../src/store/retention.js'
import { onEveryStorage } from './support/storages.js'

const request = { caller: 'acme', key: 'key-0123456789abcdef', task: 'activate_signal', fingerprint: 'f1' }

onEveryStorage('a key stands for one request of one caller', async (t, storage) => {
  const { idempotency } = await storage.open()
  t.equal(await idempotency.find(request), undefined)
  t.same(await idempotency.bind(request), { kind: 'fresh' })
  t.same(await idempotency.bind(request), { kind: 'open', calls: [] })
  t.match(await idempotency.find(request), { kind: 'open' })
  t.same(await idempotency.bind({ ...request, fingerprint: 'f2' }), { kind: 'conflict' })
  t.same(await idempotency.bind({ ...request, task: 'report_usage' }), { kind: 'conflict' })
  await idempotency.answer(request.caller, request.key, { deployments: ['é'] })
  t.same(await idempotency.bind(request), { kind: 'answered', answer: { deployments: ['é'] } })
  t.same(await idempotency.bind({ ...request, fingerprint: 'f2' }), { kind: 'conflict' })
  t.same(await idempotency.bind({ ...request, caller: 'other', fingerprint: 'f2' }), { kind: 'fresh' })
})

onEveryStorage('an answer is replayed for 24 hours and then forgotten', async (t, storage) => {
  const { idempotency } = await storage.open()
  await idempotency.bind(request)
  await idempotency.answer(request.caller, request.key, 1)
  storage.clock.now += DEFAULT_RETENTION.answersMs - 1
  await idempotency.forgetExpired(100)
  t.same(await idempotency.bind(request), { kind: 'answered', answer: 1 })
  storage.clock.now += 1
  t.same(await idempotency.bind({ ...request, fingerprint: 'f2' }), { kind: 'fresh' })
})

onEveryStorage('a request with an open call keeps its key; a released key is free', async (t, storage) => {
  const { idempotency, jobs } = await storage.open()
  await idempotency.bind(request)
  await idempotency.bind({ ...request, key: 'key-without-a-call' })
  const { caller, key } = request
  await jobs.add({ id: 'a', kind: 'call', lane: 'northwind', caller, key, data: {} })
  storage.clock.now += DEFAULT_RETENTION.answersMs * 2
  await idempotency.forgetExpired(100)
  t.match(await idempotency.find(request), { kind: 'open' })
  t.equal(await idempotency.find({ ...request, key: 'key-without-a-call' }), undefined)
  await idempotency.release(request.caller, request.key)
  t.same(await idempotency.bind({ ...request, fingerprint: 'f2' }), { kind: 'fresh' })
})

onEveryStorage(
  'a bound key names its calls, also when an earlier release has bound it',
  async (t, storage) => {
    const { idempotency, jobs, db } = await storage.open()
    const { caller, key } = request
    const call = (id: string, kind = 'call') =>
      jobs.add({ id, kind, lane: 'northwind', caller, key, data: {} })
    await call('of an earlier use')
    storage.clock.now += 1
    await idempotency.bind({ ...request, calls: ['a', 'b'] })
    for (const id of ['b', 'a']) await call(id)
    t.same(await idempotency.bind(request), { kind: 'open', calls: ['a', 'b'] })
    t.match(await jobs.getAll(['a', 'nothing', 'b']), [{ id: 'b' }, { id: 'a' }], 'in the order of the jobs')
    await sql`update idempotency set calls = null`.execute(db)
    await call('another job', 'upstream_task')
    const found = await idempotency.find(request)
    t.same(found?.kind === 'open' && [...found.calls].sort(), ['a', 'b'])
  },
)

onEveryStorage('of many requests that bind one key at once, one gets it', async (t, storage) => {
  // Replicas share a PostgreSQL; an embedded storage has one process.
  const replicas = await Promise.all(Array.from({ length: storage.isShared ? 3 : 1 }, () => storage.open()))
  const bindings = await Promise.all(
    Array.from({ length: 20 }).flatMap(() =>
      replicas.map((store) => store.write((tx) => tx.idempotency.bind(request))),
    ),
  )
  const kinds = bindings.map((binding) => binding.kind)
  t.equal(kinds.filter((kind) => kind === 'fresh').length, 1)
  t.equal(kinds.filter((kind) => kind === 'open').length, kinds.length - 1)
})

onEveryStorage('of requests that are bound together, the first with a key gets it', async (t, storage) => {
  const { idempotency } = await storage.open()
  const second = { ...request, key: 'key-of-another' }
  const open = { kind: 'open', calls: [] }
  t.same(await idempotency.bindAll([request, { ...request, fingerprint: 'f2' }, second, request, second]), [
    { kind: 'fresh' },
    { kind: 'conflict' },
    { kind: 'fresh' },
    open,
    open,
  ])
})
