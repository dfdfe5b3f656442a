import { sql } from 'kysely'
import { test } from 'tap'
import type { Held, NewJob } from '../../src/store/jobs.js'
import type { Store } from '../../src/store/store.js'
import { due, embedded, onEveryStorage } from './support/storages.js'

const job = (id: string, over: Partial<NewJob> = {}): NewJob => ({
  ...{ id, kind: 'call', lane: 'https://northwind.example/mcp', caller: 'acme', key: `key-${id}` },
  ...{ data: { segment: 'segment-1' }, ...over },
})
const one = { owner: 'one', ms: 3_600_000 } // a lease that ends here is ended by the test
const two = { owner: 'two', ms: 3_600_000 }

async function add({ jobs }: Pick<Store, 'jobs'>, ...given: Parameters<Store['jobs']['add']>): Promise<Held> {
  const added = await jobs.add(...given)
  if (!added.isHeld) throw new Error('it is not held')
  return added.job
}

onEveryStorage('an open job is worked on by who holds it, until its lease ends', async (t, storage) => {
  const store = await storage.open()
  const { jobs } = store
  await add(store, job('a'), one)
  t.equal(await jobs.claim('a', two), undefined)
  t.same(await jobs.due(['call'], [], 10), [])
  await due(store, 'a')
  t.match(await jobs.due(['call'], [], 10), [{ id: 'a' }])
  t.same(await jobs.due(['call'], ['https://northwind.example/mcp'], 10), [], 'its lane is full')
  t.same(await jobs.due(['notice'], [], 10), [])
  t.match(await jobs.claim('a', two), {
    epoch: 2,
    attempts: 2,
    state: 'open',
    data: { segment: 'segment-1' },
  })
  t.equal(await jobs.claim('a', one, { ownToo: true }), undefined, 'it is not its own')
  t.match(await jobs.claim('a', two, { ownToo: true }), { epoch: 3 }, 'its own it may take again')
})

onEveryStorage('a write under an epoch that is over changes nothing', async (t, storage) => {
  const store = await storage.open()
  const { jobs } = store
  const old = await add(store, job('a'), one)
  await due(store, 'a')
  const held = (await jobs.claim('a', two)) as Held
  t.equal(await jobs.end(old, 'answered', { by: 'one' }), false)
  t.equal(await jobs.release(old, 0), false)
  t.equal(await jobs.note(old, {}), false)
  t.same(await jobs.extend([old], one), [])
  t.same(await jobs.extend([held], two), ['a'])
  t.equal(await jobs.end(held, 'answered', { by: 'two' }), true)
  t.equal(await jobs.end(held, 'refused'), false, 'and it ends once')
  t.match(await jobs.get('a'), { state: 'answered', answer: { by: 'two' } })
  t.equal(await jobs.claim('a', one, { early: true }), undefined)
})

onEveryStorage(
  'jobs that change one thing in opposite ways are held one after the other',
  async (t, storage) => {
    const store = await storage.open()
    const { jobs } = store
    const target = 'segment-1'
    const first = await add(store, job('a', { target, side: 'on' }), one)
    const second = await jobs.add(job('b', { target, side: 'off' }), two)
    t.match(second, { isHeld: false, job: { attempts: 0 } })
    t.ok(second.job.seq > first.seq)
    await add(store, job('c', { target: 'segment-2', side: 'off' }), two)
    await add(store, job('d', { target, side: 'on' }), two)
    await jobs.end((await jobs.claim('d', two, { ownToo: true })) as Held, 'answered')
    t.equal(await jobs.claim('b', two), undefined, 'its turn has not come')
    t.match(await jobs.later(first), [{ id: 'b' }, { id: 'd' }])
    t.equal(await jobs.release(first, 60_000), true)
    t.match(await jobs.claim('b', two), { attempts: 1 })
    t.equal(await jobs.claim('a', one, { early: true }), undefined, 'now the other waits')
  },
)

onEveryStorage(
  'of many that claim one thing at once to change it in their own way, one gets it',
  async (t, storage) => {
    const stores = await Promise.all(Array.from({ length: storage.isShared ? 4 : 1 }, () => storage.open()))
    const [store] = stores as [Store]
    const ids = Array.from({ length: 8 }, (_, index) => `j${index}`)
    for (const id of ids) await store.jobs.add(job(id, { target: 'segment-1', side: id }))
    const claims = await Promise.all(
      stores.flatMap(({ jobs }, at) => ids.map((id) => jobs.claim(id, { owner: `o${at}`, ms: 10_000 }))),
    )
    t.equal(claims.filter(Boolean).length, 1)
    const added = await Promise.all(
      stores.flatMap(({ write }, at) =>
        ids.map((id) =>
          write(({ jobs }) =>
            jobs.add(job(`${id}-${at}`, { target: 'segment-2', side: `${id}-${at}` }), {
              owner: `o${at}`,
              ms: 10_000,
            }),
          ),
        ),
      ),
    )
    t.equal(added.filter(({ isHeld }) => isHeld).length, 1)
  },
)

onEveryStorage('a unit of work is kept whole or not at all', async (t, storage) => {
  const store = await storage.open()
  await t.rejects(
    store.write(async ({ jobs, idempotency }) => {
      await jobs.add(job('a'), one)
      await idempotency.bind({ caller: 'acme', key: 'key-a', task: 'activate_signal', fingerprint: 'f' })
      throw new Error('the process thought better of it')
    }),
    { message: 'the process thought better of it' },
  )
  t.equal(await store.jobs.get('a'), undefined)
  t.same(await store.jobs.ofKey('acme', 'key-a'), [])
})

onEveryStorage(
  'of units of work that are kept together, one that fails takes none with it',
  async (t, storage) => {
    const store = await storage.open()
    const outcomes = await Promise.allSettled(
      Array.from({ length: 100 }, (_, index) =>
        store.write(async ({ jobs }) => {
          await jobs.add(job(`c${index}`), one)
          if (index % 10 === 3) throw new Error('thought better of it')
          if (index % 10 === 7) await jobs.add(job(`c${index}`), one) // the same id again
          return index
        }),
      ),
    )
    for (const [index, outcome] of outcomes.entries()) {
      const isKept = index % 10 !== 3 && index % 10 !== 7
      t.equal(outcome.status, isKept ? 'fulfilled' : 'rejected', `unit ${index}`)
      t.equal((await store.jobs.get(`c${index}`))?.id, isKept ? `c${index}` : undefined)
    }
  },
)

onEveryStorage(
  'of endings written together, only the first of who holds the job counts',
  async (t, storage) => {
    const store = await storage.open()
    const past = await add(store, job('a'), one)
    const held = (await store.jobs.claim('a', one, { ownToo: true })) as Held
    const task = { caller: 'acme', type: 'activate_signal', status: 'submitted', request: {} } as const
    const warm = store.conclude({ held: await add(store, job('b'), one), state: 'answered' }) // the others wait for it
    const endings = await Promise.all([
      store.conclude({ held: past, state: 'refused', tasks: [{ ...task, id: 'of the past' }] }),
      store.conclude({ held, state: 'answered', answer: 1, tasks: [{ ...task, id: 'of the first' }] }),
      store.conclude({ held, state: 'answered', answer: 2, tasks: [{ ...task, id: 'of the second' }] }),
    ])
    t.equal(await warm, true)
    t.same(endings, [false, true, false])
    t.match(await store.jobs.get('a'), { state: 'answered', answer: 1 })
    t.equal(await store.tasks.get('acme', 'of the past'), undefined)
    t.match(await store.tasks.get('acme', 'of the first'), { id: 'of the first' })
    t.equal(await store.tasks.get('acme', 'of the second'), undefined)
  },
)

onEveryStorage('of thousands of jobs in hand, those that are still held are held on', async (t, storage) => {
  const { jobs, db } = await storage.open()
  const names = Array.from({ length: 3_000 }, (_, index) => `a${index}`)
  const added = await jobs.addAll(names.map((id) => ({ job: job(id), hold: one })))
  const held = added.flatMap((each) => (each.isHeld ? [each.job] : []))
  await jobs.claim('a7', one, { ownToo: true })
  await jobs.end(held[8] as Held, 'answered')
  await due({ db }, 'a9')
  const kept = names.filter((id) => id !== 'a7' && id !== 'a8')
  t.same((await jobs.extend(held, one)).sort(), kept.sort())
  t.same(await jobs.due(['call'], [], 10), [], 'nobody else may take them up')
})

onEveryStorage('jobs are claimed together, each once, and only those that may be', async (t, storage) => {
  const stores = [await storage.open(), ...(storage.isShared ? [await storage.open()] : [])]
  const { jobs, write } = stores[0] as Store
  const held = await add({ jobs }, job('held'), one)
  const waits = [job('a'), job('b'), job('later', { afterMs: 60_000 }), job('aimed', { target: 'it' })]
  for (const each of waits) await jobs.add(each)
  const names = ['b', 'nowhere', 'held', 'a', 'later', 'aimed']
  const claims = await Promise.all(stores.map((store) => store.jobs.claimAll(names, two)))
  const got = names.map((_, at) => claims.flatMap((lot) => lot[at] ?? []))
  t.match(got, [[{ id: 'b', epoch: 2, attempts: 1, owner: 'two' }], [], [], [{ id: 'a' }], [], []])
  t.equal(await jobs.note(held, {}), true, 'who held one holds it still')
  await due({ db: (stores[0] as Store).db }, 'b')
  t.match(await write(({ jobs: inUnit }) => inUnit.claimAll(['b'], one)), [{ id: 'b', epoch: 3 }])
})

onEveryStorage(
  'what becomes of jobs is written together, for those that are still held',
  async (t, storage) => {
    const store = await storage.open()
    const { jobs } = store
    const [a, b, c, lost] = [
      await add(store, job('a'), one),
      await add(store, job('b'), one),
      await add(store, job('c'), one),
      await add(store, job('lost'), one),
    ]
    await due(store, 'lost')
    await jobs.claim('lost', two)
    const changes = [
      { held: a, data: { text: 'a "quote", a \\ and \u0001' } },
      { held: lost, data: {}, afterMs: 0 },
      { held: b, afterMs: 0 },
      { held: c, data: { text: 'c' }, afterMs: 60_000.56 }, // pauses are random, and databases count whole milliseconds
    ]
    t.same(await jobs.changeAll(changes), [true, false, true, true])
    t.same(await jobs.extend([a, b, c], one), ['a'], 'only the first is held on')
    t.match(await jobs.get('a'), { data: { text: 'a "quote", a \\ and \u0001' } })
    t.match(await jobs.get('lost'), { data: { segment: 'segment-1' } })
    t.match(await jobs.due(['call'], [], 10), [{ id: 'b' }])
    t.match(await jobs.claim('c', two, { early: true }), { data: { text: 'c' } })
  },
)

onEveryStorage('what has ended is forgotten a little at a time, by an index', async (t, storage) => {
  const store = await storage.open()
  for (let index = 0; index < 5; index += 1)
    await store.jobs.end(await add(store, job(`a${index}`), one), 'answered')
  await store.jobs.add(job('open'))
  t.equal(await store.jobs.forgetEnded(storage.clock.now - 1, 10), 0)
  t.equal(await store.jobs.forgetEnded(storage.clock.now, 3), 3)
  t.equal(await store.jobs.forgetEnded(storage.clock.now, 3), 2)
  t.ok(await store.jobs.get('open'))
  if (storage.isShared) return
  const plan = await sql<{ detail: string }>`explain query plan
    select seq from jobs where ended_at <= 1 order by ended_at limit 200`.execute(store.db)
  t.match(plan.rows[0]?.detail, /jobs_ended/)
})

const HOUR_MS = 3_600_000

test('a clock that is set back makes no pause longer', async (t) => {
  const storage = await embedded(t)
  const { jobs } = await storage.open()
  const isDue = async () => (await jobs.due(['call'], [], 10)).length > 0
  for (const back of [HOUR_MS, 24 * HOUR_MS]) {
    const id = `back ${back}`
    const held = await add({ jobs }, job(id), one)
    await jobs.release(held, 5_000)
    storage.clock.now -= back
    t.notOk(await isDue())
    storage.clock.now += 4_999
    t.notOk(await isDue())
    storage.clock.now += 1
    t.ok(await isDue())
    await jobs.end((await jobs.claim(id, one)) as Held, 'answered')
  }
})

test('a start after the clock was set back waits for nothing longer than an hour', async (t) => {
  const storage = await embedded(t)
  const first = await storage.open()
  for (const [id, pause] of [
    ['short', 60_000],
    ['longest', HOUR_MS],
  ] as const)
    await first.jobs.release(await add(first, job(id), one), pause)
  await first.close()
  const dueAtStart = async () => {
    const store = await storage.open()
    const due = await store.jobs.due(['call'], [], 10)
    await store.close()
    return due.map(({ id }) => id)
  }
  t.same(await dueAtStart(), [], 'a pause holds over a restart')
  storage.clock.now -= 1_000
  t.same(await dueAtStart(), ['longest'])
  storage.clock.now -= 2 * HOUR_MS
  t.same((await dueAtStart()).sort(), ['longest', 'short'])
})
