import { type Kysely, type Migration, sql } from 'kysely'
import pg from 'pg'
import { test } from 'tap'
import { SHARED_TABLES, STATE_TABLES } from '../../src/store/database/database.js'
import { EMBEDDED_MIGRATIONS, migrate, SHARED_MIGRATIONS } from '../../src/store/migrations.js'
import { openStore, type Store } from '../../src/store/store.js'
import { until } from '../support/until.js'
import { bare, embedded, NO_POSTGRES, onEveryBareStorage } from './support/storages.js'

onEveryBareStorage(
  'processes that start at once on a new storage bring it up to date once',
  async (t, storage) => {
    const stores = await Promise.all(Array.from({ length: storage.isShared ? 4 : 1 }, () => storage.open()))
    for (const store of stores) t.same(await store.ledger.query({}, 1), [])
  },
)

/** Takes these steps as a newer release does when it starts. */
async function takeSteps({ db, shared }: Store, newer: Record<string, Migration>): Promise<void> {
  await migrate(db, { ...(shared ? SHARED_MIGRATIONS : EMBEDDED_MIGRATIONS), ...newer })
}

const expanding: Migration = {
  async up(db: Kysely<unknown>) {
    await db.schema
      .alterTable('audit')
      .addColumn('of_a_newer_release', 'text', (column) => column.notNull().defaultTo('unsaid'))
      .execute()
  },
}
const contracting: Migration = {
  up: (db: Kysely<unknown>) => db.schema.alterTable('audit').dropColumn('subject').execute(),
}
const entry = { id: 'a', at: 1, who: 'ops', action: 'x', subject: 's', outcome: 'done' }

onEveryBareStorage('an older release works on tables that a newer one has expanded', async (t, storage) => {
  const newer = await storage.open()
  await takeSteps(newer, { '900_expand_audit': expanding })
  const older = await storage.open({ whileInUse: true })
  await older.db.insertInto('audit').values(entry).execute()
  const rows = await newer.db.selectFrom('audit').selectAll().execute()
  t.match(rows, [{ id: 'a', of_a_newer_release: 'unsaid' }])
  await takeSteps(newer, { '900_expand_audit': expanding }) // the newer one starts again
})

onEveryBareStorage(
  'tables that a newer release has contracted are refused and left as they are',
  async (t, storage) => {
    const newer = await storage.open()
    await takeSteps(newer, { '900_expand_audit': expanding, '901_contract_audit': contracting })
    await t.rejects(
      storage.open({ whileInUse: true }),
      /changed by a newer release in a way that this one cannot work with \(901_contract_audit\); start that release/,
    )
    const steps = newer.db.withTables<{ kysely_migration: { name: string } }>()
    const names = await steps.selectFrom('kysely_migration').select('name').execute()
    t.ok(names.some(({ name }) => name === '901_contract_audit'))
  },
)

onEveryBareStorage(
  'a step that does not say what it does is taken for one that contracts',
  async (t, storage) => {
    await takeSteps(await storage.open(), { '999_future': expanding })
    await t.rejects(storage.open({ whileInUse: true }), /999_future/)
  },
)

test('steps wait for no process of the release before that waits for them', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await bare(t)
  if (!storage) return
  const before = await storage.open()
  const wide = (table: 'audit' | 'tasks'): Migration => ({
    up: (on: Kysely<unknown>) => on.schema.alterTable(table).addColumn('wide', 'text').execute(),
  })
  const waits = async () => {
    const { rows } = await sql`select 1 from pg_locks where locktype = 'relation' and not granted
      and database = (select oid from pg_database where datname = current_database())`.execute(before.db)
    return rows.length > 0
  }
  let upgrade: Promise<void> | undefined
  await before.db.transaction().execute(async (tx) => {
    await tx.updateTable('tasks').set({ status: 'failed' }).execute() // both tables, the later step's first
    upgrade = migrate(before.db, {
      ...SHARED_MIGRATIONS,
      '900_expand_audit': wide('audit'),
      '901_expand_tasks': wide('tasks'),
    })
    await until(waits, (isWaiting) => isWaiting, 8_000)
    await tx.insertInto('audit').values(entry).execute()
  })
  await t.resolves(upgrade ?? Promise.reject(new Error('it never began')))
})

test('a newer release that migrates while an older one starts is noticed', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await bare(t)
  if (!storage) return
  const { db } = await storage.open()
  const slow: Migration = {
    async up(on: Kysely<unknown>) {
      await expanding.up(on)
      starting = storage.open({ whileInUse: true }) // it has read the steps, or will, and waits for the lock
      while (true) {
        const waiting =
          await sql`select 1 from pg_locks join pg_database on pg_database.oid = pg_locks.database
          where locktype = 'advisory' and not granted and datname = current_database()`.execute(on)
        if (waiting.rows.length > 0) return
      }
    },
  }
  let starting: Promise<Store> | undefined
  await migrate(db, { ...SHARED_MIGRATIONS, '900_expand_audit': slow })
  t.ok(await starting)
})

test('every step since the audit says in its name whether it expands or contracts', (t) => {
  const names = Object.keys({ ...EMBEDDED_MIGRATIONS, ...SHARED_MIGRATIONS }).sort()
  for (const name of names.slice(names.indexOf('011_audit') + 1))
    t.match(name, /^\d{3}_(expand|contract)_\w+$/)
  t.end()
})

onEveryBareStorage(
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

test('the limits of an operator for everyday statements are none for steps', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await bare(t)
  if (!storage) return
  const name = new URL(storage.url).pathname.slice(1)
  async function limit(done: string): Promise<void> {
    const client = new pg.Client({ connectionString: storage?.url, options: '-c statement_timeout=0' })
    await client.connect()
    for (const each of ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout'])
      await client.query(`alter database ${name} ${done.replace('LIMIT', each)}`)
    await client.end()
  }
  await limit("set LIMIT = '1ms'")
  t.teardown(() => limit('reset LIMIT'))
  const stores = await Promise.all([storage.open(), storage.open()])
  for (const store of stores) t.same(await store.ledger.query({}, 1), [])
})

onEveryBareStorage('a storage that lacks a table is refused with its name', async (t, storage) => {
  const store = await storage.open()
  const tables = (await store.db.introspection.getTables()).map(({ name }) => name)
  const required = [...Object.keys(STATE_TABLES), ...(store.shared ? SHARED_TABLES : [])]
  t.same(
    tables.sort(),
    [...required, 'calls', 'found'].sort(),
    'of the last two, one is read at each start, one is the release`s before',
  )
  await sql`drop table found_rows`.execute(store.db)
  const message =
    /^the storage cannot be used as it is: .*found_rows.*; restore it from a backup, or name another/
  await t.rejects(storage.open({ whileInUse: true }), { name: 'StorageUnusable', message })
})

test('a database that says where no table can be is refused', { skip: NO_POSTGRES }, async (t) => {
  const storage = await bare(t)
  if (!storage) return
  const url = `${storage.url}?options=${encodeURIComponent('-c search_path=nowhere')}`
  const opening = openStore({ url, now: Date.now, onProblem: () => {} })
  await t.rejects(opening, { name: 'StorageUnusable', message: /no schema has been selected/ })
})
