import { sql } from 'kysely'
import { test } from 'tap'
import { StorageUnavailable } from '../../src/store/database/storage-work.js'
import type { Held, NewJob } from '../../src/store/jobs.js'
import type { Store } from '../../src/store/store.js'
import { embedded, mortal, NO_POSTGRES } from './support/storages.js'

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
  const store = await (await embedded(t)).open()
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
  t.same(await store.jobs.ofKey('acme', 'key', 0), [])
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

test('a mistake of ours is not taken for a storage that cannot serve', async (t) => {
  const store = await (await embedded(t)).open()
  await add(store)
  await t.rejects(add(store), /UNIQUE/)
})
