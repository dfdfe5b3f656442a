import pg from 'pg'
import { test } from 'tap'
import { StorageUnavailable } from '../../src/store/database/storage-work.js'
import { NO_POSTGRES, shared } from './support/storages.js'

const LIMIT_MS = 5_000 // what nobody blocks takes less on a busy machine
const hold = { owner: 'one', ms: 60_000 }
const request = (key: string) => ({ caller: 'acme', key, task: 't', fingerprint: 'f' })
const job = (id: string) => ({
  ...{
    id,
    kind: 'call',
    lane: 'l',
    target: `segment of ${id}`,
    side: 'on',
    caller: 'acme',
    key: id,
    data: {},
  },
})
const undertaking = (id: string) => ({ request: request(id), jobs: [job(id)], hold, entries: [] })
const names = (count: number) => Array.from({ length: count }, (_, index) => `k${index}`)

test('what another process holds keeps waiting only what needs it', { skip: NO_POSTGRES }, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const store = await storage.open({ lockMs: LIMIT_MS })
  const held = (await store.jobs.addAll(names(3).map((id) => ({ job: job(`before ${id}`), hold })))).flatMap(
    (one) => (one.isHeld ? [one.job] : []),
  )
  const frozen = new pg.Client({ connectionString: storage.url })
  await frozen.connect()
  t.teardown(() => frozen.end())
  await frozen.query('begin') // and then nothing: a process that was stopped
  await frozen.query(`insert into idempotency (caller, key, task, fingerprint, created_at, expires_at)
    values ('acme', 'k7', 't', 'f', 0, 0)`)
  await frozen.query(`select from jobs where id = 'before k1' for update`)

  const [undertaken, concluded] = await Promise.all([
    Promise.allSettled(names(20).map((id) => store.undertake(undertaking(id)))),
    Promise.allSettled(held.map((one) => store.conclude({ held: one, state: 'answered' }))),
  ])
  for (const [index, outcome] of undertaken.entries()) {
    t.match(
      outcome,
      index === 7
        ? { status: 'rejected', reason: StorageUnavailable }
        : { status: 'fulfilled', value: { kind: 'fresh', jobs: [{ isHeld: true }] } },
      `k${index}`,
    )
  }
  t.match(concluded, [{ value: true }, { status: 'rejected', reason: StorageUnavailable }, { value: true }])
  await frozen.query('rollback')
  t.match(await store.undertake(undertaking('k7')), { kind: 'fresh' })
  const [, kept] = held
  t.equal(kept && (await store.conclude({ held: kept, state: 'answered' })), true)
})

test('a process that falls silent in the middle of a unit of work loses it', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const silent = await storage.open({ statementMs: LIMIT_MS })
  const other = await storage.open()
  let go = () => {}
  const silence = new Promise<void>((resolve) => {
    go = resolve
  })
  let isBound = () => {}
  const bound = new Promise<void>((resolve) => {
    isBound = resolve
  })
  const cut = silent.write(async ({ idempotency }) => {
    await idempotency.bind(request('k')).finally(isBound)
    await silence
    await idempotency.bind(request('another'))
  })
  const lost = t.rejects(cut, StorageUnavailable)
  await bound
  t.match(
    await other.idempotency.bind(request('k')),
    { kind: 'fresh' },
    'its locks are gone, and what it wrote',
  )
  go()
  await lost
})

test('processes that write the same things together do not block each other', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const lockMs = 60_000 // the database itself ends two that wait for each other, after a second
  const [one, other] = [await storage.open({ lockMs }), await storage.open({ lockMs })]
  const requests = names(600).map(request)
  const bindings = await Promise.all([
    one.write(({ idempotency }) => idempotency.bindAll(requests)),
    other.write(({ idempotency }) => idempotency.bindAll([...requests].reverse())),
  ])
  const kinds = bindings.map((all) => [...new Set(all.map(({ kind }) => kind))].join()).sort()
  t.same(kinds, ['fresh', 'open'])

  const added = await one.jobs.addAll(names(3_000).map((id) => ({ job: job(id), hold })))
  const held = added.flatMap((each) => (each.isHeld ? [each.job] : []))
  const backwards = held.map((each) => ({ held: each, state: 'answered' })).reverse()
  const [extended, ended] = await Promise.all([one.jobs.extend(held, hold), one.jobs.endAll(backwards)])
  t.ok(extended.length === 0 || extended.length === 3_000)
  t.equal(ended.filter(Boolean).length, 3_000)
})
