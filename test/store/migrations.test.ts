import type { Kysely, Migration } from 'kysely'
import { test } from 'tap'
import { EMBEDDED_MIGRATIONS, migrate, SHARED_MIGRATIONS } from '../../src/store/database/migrations.js'
import { openStore } from '../../src/store/store.js'
import { embedded, onEveryStorage } from './support/storages.js'

onEveryStorage(
  'processes that start at once on a new storage bring it up to date once',
  async (t, storage) => {
    const stores = await Promise.all(Array.from({ length: storage.isShared ? 4 : 1 }, () => storage.open()))
    for (const store of stores) t.same(await store.ledger.query({}, 1), [])
  },
)

onEveryStorage('a storage of a newer release is refused and left as it is', async (t, storage) => {
  const store = await storage.open()
  const at = new Date(storage.clock.now).toISOString()
  const steps = store.db.withTables<{ kysely_migration: { name: string; timestamp: string } }>()
  await steps.insertInto('kysely_migration').values({ name: '999_future', timestamp: at }).execute()
  await t.rejects(storage.open({ beside: true }), /999_future/)
})

onEveryStorage(
  'a start that ends in the middle of a step leaves nothing of it behind',
  async (t, storage) => {
    const { db, shared } = await storage.open()
    const known = shared ? SHARED_MIGRATIONS : EMBEDDED_MIGRATIONS
    const step = (isCut: boolean): Migration => ({
      async up(on: Kysely<unknown>) {
        await on.schema.createTable('half').addColumn('id', 'text').execute()
        if (isCut) throw new Error('cut off')
      },
    })
    await t.rejects(migrate(db, { ...known, '900_half': step(true) }), /cut off/)
    await migrate(db, { ...known, '900_half': step(false) })
    const tables = db.withTables<{ half: { id: string } }>()
    t.same(await tables.selectFrom('half').selectAll().execute(), [])
  },
)

test('a url that names no storage is refused with what was expected', async (t) => {
  const open = (url: string) => openStore({ url, now: () => 0, onProblem: () => {} })
  await t.rejects(open('mysql://127.0.0.1/x'), /expected file:<folder> or postgres/)
})

test('an embedded storage takes relative and absolute folders and file urls', async (t) => {
  const { url } = await embedded(t)
  const folder = url.slice('file:'.length)
  for (const form of [`file://${folder}`, `file:${folder}/../${folder.split('/').at(-1)}`]) {
    const store = await openStore({ url: form, now: () => 0, onProblem: () => {} })
    await store.blobs.write('a', [])
    await store.close()
  }
  const store = await openStore({ url, now: () => 0, onProblem: () => {} })
  t.teardown(() => store.close())
  t.same(await store.blobs.list(''), ['a'])
})
