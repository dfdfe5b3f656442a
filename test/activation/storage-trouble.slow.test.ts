import { mkdirSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Worker } from 'node:worker_threads'
import { sql } from 'kysely'
import { test } from 'tap'
import { StorageUnavailable } from '../../src/store/database/storage-work.js'
import { freezableFolder, NO_FREEZING, NO_SMALL_DISK, smallDisk } from '../store/support/disk.js'
import { embedded, mortal, NO_POSTGRES } from '../store/support/storages.js'
import { buyer, soon } from './support/parts.js'
import { asks, first, key, openLive, startWorld, type World } from './support/world.js'

const unavailable = { error: { code: 'SERVICE_UNAVAILABLE', retry_after: Number } }

/** While `trouble` lasts writes are refused and reads go on; afterwards the same request is done once. */
async function rides(
  t: Parameters<typeof startWorld>[0],
  world: World,
  trouble: { begin(): Promise<unknown>; end(): Promise<unknown> },
) {
  const { northwind } = world.sandbox.agents
  const request = asks(first(world.choices('northwind')), { idempotency_key: key() })
  const declared = { brand: { domain: 'acme.example' }, operator: 'acme.example', billing: 'operator' }
  const sync = { idempotency_key: key(), accounts: [declared] }
  await trouble.begin()
  t.match(await world.activate(request), unavailable)
  t.match(await world.activation.syncAccounts(sync, buyer), unavailable)
  t.equal(northwind.activations(), 0, 'nothing is half done')
  t.ok(world.rows().length > 0, 'the feed is read as before')
  await trouble.end()
  t.match(await world.activate(request), { kind: 'answer', replayed: undefined })
  t.match(await world.activation.syncAccounts(sync, buyer), { kind: 'answer', replayed: undefined })
  t.equal(northwind.activations(), 1)
  t.match(await world.store.ledger.query({}, 10), [{ outcome: 'completed' }])
}

test('an activation rides out a full disk', async (t) => {
  const disk = smallDisk(t, 1)
  if (!disk) return t.comment(NO_SMALL_DISK)
  const { folder } = disk
  const world = await startWorld(t, { agents: ['northwind'], store: await openLive(t, `file:${folder}`) })
  const filler = join(folder, 'filler')
  await rides(t, world, {
    begin: async () =>
      t.throws(() => writeFileSync(filler, Buffer.alloc(2 * 1024 * 1024)), { code: 'ENOSPC' }),
    end: async () => rmSync(filler),
  })
})

test('a folder that became read-only', async (t) => {
  const freezing = freezableFolder(t)
  if (!freezing) return t.comment(NO_FREEZING)
  const { folder } = freezing
  const world = await startWorld(t, { agents: ['northwind'], store: await openLive(t, `file:${folder}`) })
  await rides(t, world, {
    async begin() {
      freezing.freeze()
      t.throws(() => writeFileSync(join(folder, 'blobs', 'new'), ''), { code: 'EPERM' })
      await t.rejects(world.store.blobs.write('slice/x', [Buffer.from('rows')]), StorageUnavailable)
    },
    end: async () => freezing.thaw(),
  })
  await world.store.blobs.write('slice/x', [Buffer.from('rows')])
})

test('an activation rides out a database that can only be read', async (t) => {
  const world = await startWorld(t, { agents: ['northwind'] })
  const pragma = (text: string) => sql.raw(`pragma ${text}`).execute(world.store.db)
  await rides(t, world, { begin: () => pragma('query_only = 1'), end: () => pragma('query_only = 0') })
})

test('a thread that ended, and a database file that cannot be opened again', async (t) => {
  const { url } = await embedded(t)
  const threads: Worker[] = []
  const watch = (thread: Worker) => void threads.push(thread)
  process.on('worker', watch)
  const store = await openLive(t, url)
  process.off('worker', watch)
  const world = await startWorld(t, { agents: ['northwind'], store })
  const file = join(url.slice('file:'.length), 'tributary.db')
  await rides(t, world, {
    async begin() {
      await Promise.all(threads.map((thread) => thread.terminate()))
      renameSync(file, `${file}.away`)
      mkdirSync(file)
    },
    async end() {
      t.match(store.problem(), /^the thread of the database could not be started again/)
      rmdirSync(file)
      renameSync(`${file}.away`, file)
    },
  })
  t.equal(store.problem(), undefined)
})

test('a database that is gone', { skip: NO_POSTGRES }, async (t) => {
  const storage = await mortal(t)
  if (!storage) return
  const { server } = storage
  const world = await startWorld(t, { agents: ['northwind'], store: await openLive(t, storage.url) })
  await rides(t, world, { begin: server.kill, end: server.start })
})

test('an outcome that cannot be written down is known once it can, and the call is not made twice', async (t) => {
  const storage = await embedded(t)
  const store = await openLive(t, storage.url)
  const pragma = (text: string) => sql.raw(`pragma ${text}`).execute(store.db)
  let isFull = true
  const world = await startWorld(t, {
    store,
    agents: ['northwind'],
    call:
      (call) =>
      async (...args) => {
        const outcome = await call(...args)
        if (isFull) await pragma('query_only = 1')
        return outcome
      },
  })
  const request = asks(first(world.choices('northwind')), { idempotency_key: key() })
  t.match(await world.activate(request), unavailable)
  isFull = false
  await pragma('query_only = 0')
  t.match(await store.ledger.query({}, 10), [{ outcome: 'pending' }])
  t.match(await world.activation.activate(request as never, buyer, soon()), {
    kind: 'answer',
    replayed: true,
  })
  t.equal(world.sandbox.agents.northwind.activations(), 1)
  t.match(await store.ledger.query({}, 10), [{ outcome: 'completed' }])
})
