import { mkdir, open, rm, truncate, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { type Test, test } from 'tap'
import { wasClosed } from '../../src/store/database/sqlite.js'
import type { Store } from '../../src/store/store.js'
import { embedded, type Storage } from './support/storages.js'

const PAGE = 4_096
const fileOf = ({ url }: Storage) => join(url.slice('file:'.length), 'tributary.db')

async function fill(store: Store, rows: number): Promise<void> {
  const request = (index: number) => ({
    ...{ caller: 'acme', key: `key-${index}`, task: 't', fingerprint: 'f'.repeat(64) },
  })
  await store.idempotency.bindAll(Array.from({ length: rows }, (_, index) => request(index)))
}

/** Closed, with garbage at the begin of each of the pages, and no mark of an orderly end. */
async function damaged(storage: Storage, store: Store, pages: (size: number) => Iterable<number>) {
  await store.close()
  const file = await open(fileOf(storage), 'r+')
  const { size } = await file.stat()
  for (const page of pages(size / PAGE)) await file.write(Buffer.alloc(64, 0xff), 0, 64, page * PAGE)
  await file.close()
  await rm(`${fileOf(storage)}.closed`)
}

async function pagesOf({ db }: Store, name: string): Promise<number[]> {
  const { rows } = await sql<{
    page: number
  }>`select pageno - 1 as page from dbstat where name = ${name}`.execute(db)
  return rows.map(({ page }) => page)
}

test('only what an orderly end did not leave is read through at the next start', async (t) => {
  const storage = await embedded(t)
  await (await storage.open()).close()
  const file = fileOf(storage)
  t.equal(await wasClosed(file), true)
  t.equal(await wasClosed(file), false, 'a start uses the mark up: after a crash there is none')
  await (await storage.open()).close()
  await utimes(file, 1, 1)
  t.equal(await wasClosed(file), false, 'another file, or a change, is checked')
})

test('who looks in beside a server leaves no mark of an orderly end: the server may still crash', async (t) => {
  const storage = await embedded(t)
  await storage.open()
  await (await storage.open({ whileInUse: true })).close()
  t.equal(await wasClosed(fileOf(storage)), false)
})

test('a mark that cannot be written keeps nobody from closing, and the next start checks', async (t) => {
  const storage = await embedded(t)
  const store = await storage.open()
  await mkdir(`${fileOf(storage)}.closed`)
  await store.close()
  t.equal(await wasClosed(fileOf(storage)), false)
})

test('a database file that lost what was written last is refused at start instead of served', async (t) => {
  const storage = await embedded(t)
  const store = await storage.open()
  await fill(store, 600)
  // The pages that were written last, none of which a start reads for another reason.
  await damaged(storage, store, (pages) =>
    Array.from({ length: Math.floor(pages * 0.2) }, (_, index) => Math.floor(pages * 0.8) + index),
  )
  await t.rejects(storage.open(), /damaged|malformed/)
})

for (const [size, rows] of [
  ['small', 1_000],
  ['large', 8_000],
] as const) {
  test(`an index of a ${size} table that lost its entries is found at start`, async (t) => {
    const storage = await embedded(t)
    const store = await storage.open()
    await fill(store, rows)
    const indexes = sql<{ name: string }>`select name from pragma_index_list('idempotency')`
    const name = (await indexes.execute(store.db)).rows[0]?.name
    // Other entries in the place of its own: each page by itself is sound.
    await sql`pragma writable_schema = 1`.execute(store.db)
    await sql`update sqlite_schema set rootpage = (select rootpage from sqlite_schema where name = 'tasks_caller')
      where name = ${name}`.execute(store.db)
    await damaged(storage, store, () => [])
    await t.rejects(storage.open(), /is damaged \(.*idempotency/)
  })
}

test('pages of an index that make no sense are found at start', async (t) => {
  const storage = await embedded(t)
  const store = await storage.open()
  const key = (index: number) => `${index}${'k'.repeat(100)}`
  await store.jobs.addAll(
    Array.from({ length: 300 }, (_, index) => ({
      job: { id: `j${index}`, kind: 'call', lane: 'l', caller: 'c', key: key(index), data: {} },
    })),
  )
  const pages = await pagesOf(store, 'jobs_key')
  t.ok(pages.length > 1)
  await damaged(storage, store, () => pages.slice(1))
  await t.rejects(storage.open(), /is damaged/)
})

test('a large database without damage is opened after a crash', async (t) => {
  const storage = await embedded(t)
  const store = await storage.open()
  await fill(store, 8_000)
  await store.jobs.addAll(
    Array.from({ length: 6_000 }, (_, index) => ({
      job: { id: `j${index}`, kind: 'call', lane: 'l', caller: 'c', key: `k${index}`, target: 't', data: {} },
      ...(index % 3 === 0 && { hold: { owner: 'one', ms: 10_000 } }),
    })),
  )
  await damaged(storage, store, () => [])
  const again = await storage.open()
  t.ok(await again.jobs.get('j5999'))
})

/** A row whose text a disk has changed: no text at all. */
async function withDamagedText(t: Test) {
  const storage = await embedded(t)
  const store = await storage.open()
  for (const id of ['sound', 'hurt']) {
    await store.jobs.add({ id, kind: 'call', lane: 'l', caller: 'c', data: { text: 'some text' } })
  }
  await sql`update jobs set data = cast(x'7b22ff' as text) where id = 'hurt'`.execute(store.db)
  return { storage, store }
}

test('a text that is none is told of by whoever reads it, and the rest is read', async (t) => {
  const { store } = await withDamagedText(t)
  await t.rejects(
    store.jobs.get('hurt'),
    /tributary\.db is damaged \(a text in it is not UTF-8\); restore it from a backup/,
  )
  await t.rejects(store.jobs.claim('hurt', { owner: 'one', ms: 1_000 }), /is damaged/)
  t.match(await store.jobs.get('sound'), { data: { text: 'some text' } })
  t.match(await store.jobs.due(['call'], [], 10), [{ id: 'sound' }, { id: 'hurt' }], 'nobody holds it')
})

test('a text that is none is found at the start after a crash', async (t) => {
  const { storage, store } = await withDamagedText(t)
  await damaged(storage, store, () => [])
  await t.rejects(storage.open(), /is damaged \(a text in it is not UTF-8\)/)
})

/** What a disk, or a copy that was cut off, makes of the file; each shows when it is opened, whether it is checked or not. */
const SPOILT: Record<string, (file: string) => Promise<void>> = {
  'is cut off': (file) => truncate(file, 2 * PAGE),
  'is cut off within a page': (file) => truncate(file, 100),
  'has another header': async (file) => {
    const opened = await open(file, 'r+')
    await opened.write(Buffer.alloc(64, 0xff), 0, 64, 0)
    await opened.close()
  },
}

test('a file of a format that the database does not know is refused', async (t) => {
  const storage = await embedded(t)
  await (await storage.open()).close()
  const opened = await open(fileOf(storage), 'r+')
  await opened.write(Buffer.from([77]), 0, 1, 47) // its schema format, which is 4 today
  await opened.close()
  const message = /^the storage cannot be used as it is: unsupported file format; restore it from a backup/
  await t.rejects(storage.open(), { name: 'StorageUnusable', message })
})

for (const [what, spoil] of Object.entries(SPOILT)) {
  test(`a file that ${what} is refused with its name`, async (t) => {
    const storage = await embedded(t)
    await (await storage.open()).close()
    await spoil(fileOf(storage))
    const message = new RegExp(`^${fileOf(storage)} is damaged \\(.*\\); restore it from a backup`)
    await t.rejects(storage.open(), { name: 'StorageUnusable', message })
  })
}
