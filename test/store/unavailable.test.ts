import { join } from 'node:path'
import { sql } from 'kysely'
import Database from 'libsql'
import pg from 'pg'
import { test } from 'tap'
import { openingWork, StorageUnavailable } from '../../src/store/database/storage-work.js'
import type { Held, NewJob } from '../../src/store/jobs.js'
import { openStore, type Store } from '../../src/store/store.js'
import { until } from '../support/upstream-world.js'
import { embedded, mortal, NO_POSTGRES, shared } from './support/storages.js'

const call: NewJob = {
  ...{ id: 'a', kind: 'call', lane: 'northwind', caller: 'acme', key: 'key' },
  data: { padding: 'x'.repeat(100_000) },
}
const hold = { owner: 'one', ms: 60_000 }

async function add({ jobs }: Pick<Store, 'jobs'>): Promise<Held> {
  const added = await jobs.add(call, hold)
  if (!added.isHeld) throw new Error('it is not held')
  return added.job
}

test('a full disk refuses writes, keeps nothing of them, and goes on reading', async (t) => {
  const { clock, problems, open } = await embedded(t)
  const store = await open()
  const { page_count: pages } = (await sql<{ page_count: number }>`pragma page_count`.execute(store.db))
    .rows[0] as { page_count: number }
  await sql`pragma max_page_count = ${sql.lit(pages + 2)}`.execute(store.db)
  const request = { caller: 'acme', key: 'key', task: 't', fingerprint: 'f' }
  const write = () =>
    store.write(async (tx) => {
      await tx.idempotency.bind(request)
      await tx.jobs.add(call, hold)
    })
  await t.rejects(write(), StorageUnavailable)
  await t.rejects(write(), StorageUnavailable)
  t.match(problems, [/cannot serve just now: .*full/], 'told once')
  clock.now += 60_000
  await t.rejects(write(), StorageUnavailable)
  t.equal(problems.length, 2, 'and again after a minute')
  t.same(await store.jobs.ofKey('acme', 'key'), [])
  t.equal(await store.jobs.get('a'), undefined)
  await sql`pragma max_page_count = 100000`.execute(store.db)
  await write()
  t.equal((await store.jobs.get('a'))?.state, 'open')
})

test('a read-only database refuses writes, says so, and goes on reading', async (t) => {
  const { clock, open } = await embedded(t)
  const store = await open()
  const held = await add(store)
  await sql`pragma query_only = 1`.execute(store.db)
  await t.rejects(store.jobs.end(held, 'answered', {}), StorageUnavailable)
  t.equal((await store.jobs.get('a'))?.state, 'open')
  t.match(store.problem(), /readonly/, 'that it was read is no answer')
  await sql`pragma query_only = 0`.execute(store.db)
  t.equal(await store.write(({ jobs }) => jobs.end(held, 'answered', {})), true)
  t.equal(store.problem(), undefined)
  await sql`pragma query_only = 1`.execute(store.db)
  await t.rejects(add(store), StorageUnavailable)
  clock.now += 60_000
  await store.jobs.get('a')
  t.equal(store.problem(), undefined, 'nothing was tried for a minute')
})

test('a database that another process keeps locked refuses writes, says so, and goes on reading', async (t) => {
  const { url, open } = await embedded(t)
  const store = await open()
  const held = await add(store)
  const other = new Database(join(url.slice('file:'.length), 'tributary.db'))
  t.teardown(() => other.close())
  other.exec('begin exclusive')
  await t.rejects(
    store.write(({ jobs }) => jobs.end(held, 'answered', {})),
    StorageUnavailable,
  )
  t.equal((await store.jobs.get('a'))?.state, 'open')
  t.match(store.problem(), /locked/, 'that it was read is no answer')
  other.exec('rollback')
  t.equal(await store.write(({ jobs }) => jobs.end(held, 'answered', {})), true)
  t.equal(store.problem(), undefined)
})

test('what is written after the database was locked is there for everybody', async (t) => {
  const { url, open } = await embedded(t)
  const { audit } = await open()
  const other = new Database(join(url.slice('file:'.length), 'tributary.db'))
  t.teardown(() => other.close())
  const entry = (subject: string) => ({ who: 'op', action: 'suspend-caller', subject, outcome: 'done' })
  other.exec('begin exclusive')
  await t.rejects(audit.note(entry('one')), StorageUnavailable)
  other.exec('rollback')
  await audit.note(entry('another'))
  t.same(other.prepare('select subject from audit').all(), [{ subject: 'another' }])
})

test('a database that goes away and returns is used again', { skip: NO_POSTGRES }, async (t) => {
  const storage = await mortal(t)
  if (!storage) return
  const store = await storage.open()
  const held = await add(store)
  await storage.server.kill()
  await t.rejects(store.jobs.end(held, 'answered', {}), StorageUnavailable)
  await t.rejects(store.blobs.read('slice'), StorageUnavailable)
  await storage.server.start()
  t.equal(await store.jobs.end(held, 'answered', {}), true)
})

/** Resolves for all when so many have come. */
function createRendezvous(count: number): () => Promise<void> {
  let there = 0
  let all = () => {}
  const come = new Promise<void>((resolve) => {
    all = resolve
  })
  return () => {
    there += 1
    if (there === count) all()
    return come
  }
}

/** What is done to the role and the database of that name, how it is undone, and where. */
const WITHDRAWN: readonly [what: string, done: string, undone: string, there?: string][] = [
  [
    'a database that takes nobody in',
    'alter database withdrawn allow_connections false',
    'alter database withdrawn allow_connections true',
  ],
  [
    'a database under another name',
    'alter database withdrawn rename to renamed',
    'alter database renamed rename to withdrawn',
  ],
  ['a role that may not log in', 'alter role withdrawn nologin', 'alter role withdrawn login'],
  [
    'a role without a privilege',
    'revoke all on jobs from withdrawn',
    'grant all on jobs to withdrawn',
    'withdrawn',
  ],
]

test('what an operator withdrew cannot serve, and does again afterwards', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await mortal(t)
  if (!storage) return
  const [role, name] = ['withdrawn', 'withdrawn']
  const at = (pathname: string, username: string) =>
    Object.assign(new URL(storage.url), { pathname, username }).href
  /** Everybody connects anew before it and after it. */
  async function operate(said: string, there = 'template1'): Promise<void> {
    const client = new pg.Client({ connectionString: at(there, 'tributary') })
    await client.connect()
    const ended = `select pg_terminate_backend(pid) from pg_stat_activity where usename = '${role}'`
    for (const asked of [ended, said, ended]) await client.query(asked)
    await client.end()
  }
  await operate(`create role ${role} login`)
  await operate(`create database ${name}`)
  await operate(`grant all on schema public to ${role}`, name)
  const store = await openStore({ url: at(name, role), now: Date.now, onProblem: () => {} })
  t.teardown(() => store.close())
  await operate(`alter table jobs owner to tributary; grant all on jobs to ${role}`, name)
  for (const [what, done, undone, there] of WITHDRAWN) {
    await operate(done, there)
    await t.rejects(store.jobs.get('a'), StorageUnavailable, what)
    t.match(store.problem(), /cannot serve just now/)
    await operate(undone, there)
    // A connection whose end has not been read yet fails whoever is given it, as while the database is away.
    const serves = () =>
      store.jobs.get('a').then(
        (job) => job === undefined,
        (error) => {
          if (!(error instanceof StorageUnavailable)) throw error
          return false
        },
      )
    await until(`after ${what} it serves again`, serves)
    t.equal(store.problem(), undefined)
  }
})

test('of two units that wait for each other one is done, and one refused', {
  skip: NO_POSTGRES,
}, async (t) => {
  const store = await (await shared(t))?.open()
  if (!store) return
  const request = (key: string) => ({ caller: 'acme', key, task: 't', fingerprint: 'f' })
  const both = createRendezvous(2)
  const unit = (first: string, second: string) =>
    store.write(async (tx) => {
      await tx.idempotency.bind(request(first))
      await both()
      await tx.idempotency.bind(request(second))
    })
  const outcomes = await Promise.allSettled([unit('a', 'b'), unit('b', 'a')])
  t.same(outcomes.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
  for (const one of outcomes)
    if (one.status === 'rejected') t.match(one.reason, { name: 'StorageUnavailable' })
})

test('a mistake of ours is not taken for a storage that cannot serve', async (t) => {
  const store = await (await embedded(t)).open()
  await add(store)
  await t.rejects(add(store), /UNIQUE/)
})

test('nor, when a storage is opened, for one that cannot be used', async (t) => {
  const fails = (error: Error) =>
    openingWork(async () => {
      throw error
    })
  for (const ours of [new TypeError('x is undefined'), new RangeError('x'), new ReferenceError('x')]) {
    await t.rejects(fails(ours), ours)
  }
  await t.rejects(fails(new Error('no such table: jobs')), { name: 'StorageUnusable' })
})
