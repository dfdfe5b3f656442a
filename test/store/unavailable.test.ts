import { sql } from 'kysely'
import { test } from 'tap'
import type { NewCall } from '../../src/store/calls.js'
import { StorageUnavailable } from '../../src/store/unavailable.js'
import { embedded, NO_POSTGRES, shared } from './support/storages.js'

const call: NewCall = {
  id: 'a',
  caller: 'acme',
  key: 'key',
  task: 'activate_signal',
  upstream: 'northwind',
  upstreamKey: 'derived',
  target: 'segment',
  args: { padding: 'x'.repeat(100_000) },
  rows: [],
}
const lease = { owner: 'one', until: 0 }

test('a full disk refuses writes, keeps nothing of them, and goes on reading', async (t) => {
  const store = await (await embedded(t)).open()
  const { page_count: pages } = (await sql<{ page_count: number }>`pragma page_count`.execute(store.db))
    .rows[0] as { page_count: number }
  await sql`pragma max_page_count = ${sql.lit(pages + 2)}`.execute(store.db)
  const request = { caller: 'acme', key: 'key', task: 't', fingerprint: 'f' }
  const write = () =>
    store.write(async (tx) => {
      await tx.idempotency.bind(request)
      await tx.calls.intend(call, lease)
    })
  await t.rejects(write(), StorageUnavailable)
  t.same(await store.calls.ofKey('acme', 'key', 0), [])
  t.equal(await store.calls.get('a'), undefined)
  await sql`pragma max_page_count = 100000`.execute(store.db)
  await write()
  t.equal((await store.calls.get('a'))?.upstreamKey, 'derived')
})

test('a read-only database refuses writes and goes on reading', async (t) => {
  const store = await (await embedded(t)).open()
  await store.calls.intend(call, lease)
  await sql`pragma query_only = 1`.execute(store.db)
  await t.rejects(store.calls.settle('a', 'answered', {}), StorageUnavailable)
  t.equal((await store.calls.get('a'))?.state, 'open')
  await sql`pragma query_only = 0`.execute(store.db)
  t.equal(await store.calls.settle('a', 'answered', {}), true)
})

test('a database that goes away and returns is used again', { skip: NO_POSTGRES }, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const store = await storage.open()
  await store.calls.intend(call, lease)
  await storage.server.kill()
  await t.rejects(store.calls.settle('a', 'answered', {}), StorageUnavailable)
  await t.rejects(store.blobs.read('slice'), StorageUnavailable)
  await storage.server.start()
  t.equal(await store.calls.settle('a', 'answered', {}), true)
})

test('a mistake of ours is not taken for a storage that cannot serve', async (t) => {
  const store = await (await embedded(t)).open()
  await store.calls.intend(call, lease)
  await t.rejects(store.calls.intend(call, lease), /UNIQUE/)
})
