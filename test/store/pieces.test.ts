/**
 * Of a generation only what changed is hashed again: its other bytes keep their names. What does not match its name is missing, and
 * is written again by whoever has it.
 */
import { randomBytes, webcrypto } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { sql } from 'kysely'
import { pino } from 'pino'
import { type Test, test } from 'tap'
import { systemClock } from '../../src/net/clock.js'
import { createBuilderHost } from '../../src/snapshot/builder-host.js'
import { wholeParts } from '../../src/snapshot/snapshot.js'
import { createReplica } from '../../src/store/replicas/replica.js'
import type { Store } from '../../src/store/store.js'
import { listing, sliceOf } from '../feed/world.js'
import { collect } from '../support/collect.js'
import { until } from '../support/until.js'
import { NO_POSTGRES, type Storage, shared } from './support/storages.js'

const ROWS = 500
const MIB = 1024 * 1024

/** Changes a byte of every piece. */
const damageAll = ({ db }: Store) =>
  sql`update pieces set bytes = set_byte(bytes, 0, (get_byte(bytes, 0) + 1) % 256)`.execute(db)

const piecesIn = async ({ db }: Store) => (await db.selectFrom('pieces').select('name').execute()).length

const readBy = async ({ blobs }: Store, name: string) => (await blobs.read(name))?.map(Buffer.from)

/** A process that hears the others. */
async function process(t: Test, storage: Storage, self: string) {
  const store = await storage.open()
  const { replicas } = store
  if (!replicas) throw new Error('a shared storage has replicas')
  const replica = createReplica({
    ...{ replicas, clock: systemClock, self, form: 1, revision: () => 'one' },
    log: pino({ level: 'silent' }),
  })
  t.teardown(replica.close)
  await replica.listen()
  return { store, replicas }
}

/** Bytes that are hashed from now on. */
function hashedBytes(t: { teardown(undo: () => void): void }) {
  const subtle = Object.getPrototypeOf(webcrypto.subtle) as webcrypto.SubtleCrypto
  const digest = subtle.digest
  let bytes = 0
  subtle.digest = function (algorithm, data: Uint8Array) {
    bytes += data.byteLength
    return digest.call(this, algorithm, data)
  }
  t.teardown(() => {
    subtle.digest = digest
  })
  return () => {
    const sum = bytes
    bytes = 0
    return sum
  }
}

test('a snapshot that shares most of its memory with the one before is hashed where it differs', {
  skip: NO_POSTGRES,
}, async (t) => {
  const store = await (await shared(t))?.open()
  if (!store) return
  const host = createBuilderHost()
  t.teardown(host.close)
  const rowsOf = (word: string) =>
    Array.from({ length: ROWS }, (_, at) => listing(`${word}${at}`, { description: 'd'.repeat(500) }))
  const steady = sliceOf('north', rowsOf('n'))
  const rows = rowsOf('s')
  const build = async (changed: readonly ReturnType<typeof listing>[]) => {
    const { snapshot } = await host.build({
      slices: [steady, sliceOf('south', changed)],
      ...{ providers: [], policy: { policy: 'observe', providers: {} }, now: Date.now() },
    })
    return wholeParts(snapshot)
  }
  const taken = hashedBytes(t)
  const save = async (parts: readonly Uint8Array[]) => {
    await store.blobs.write('a generation', parts)
    return taken()
  }
  const first = await build(rows)
  const whole = await save(first)
  t.ok(whole > 2 * ROWS * 500)
  const few = whole / 20
  t.ok((await save(first)) < few, 'nothing of it is new')
  const [one, ...others] = rows
  const after = await build([{ ...one, name: 'another name' } as NonNullable<typeof one>, ...others])
  const own = sliceOf('south', rows).rows.chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0)
  const again = await save(after)
  t.ok(again < own + few * 2, `${again} of ${whole} bytes, and the changed slice has ${own}`)
  t.same(
    (await store.blobs.read('a generation'))?.map(Buffer.from),
    after.map(Buffer.from),
    'and it is whole',
  )
})

test('pieces are compressed by the faster way where the server knows it', {
  skip: NO_POSTGRES,
}, async (t) => {
  const store = await (await shared(t))?.open()
  if (!store) return
  const { db, blobs } = store
  const knows = await sql`select enumvals from pg_settings
    where name = 'default_toast_compression' and 'lz4' = any(enumvals)`.execute(db)
  await blobs.write('a blob', [Buffer.from('words that come again. '.repeat(10_000))])
  const { rows } = await sql<{ way: string }>`select pg_column_compression(bytes) as way from pieces`.execute(
    db,
  )
  t.same(rows, [{ way: knows.rows.length > 0 ? 'lz4' : 'pglz' }])
})

test('damaged pieces are removed by who reads them, and written with the next blob that has them', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const [writer, reader] = [await storage.open(), await storage.open()]
  const parts = [Buffer.from('a head'), randomBytes(2 * MIB + 1)]
  await writer.blobs.write('a blob', parts)
  await damageAll(writer)
  t.equal(await reader.blobs.read('a blob'), undefined)
  t.equal(await piecesIn(reader), 0, 'all of the blob were looked at')
  t.equal(await reader.blobs.read('a blob'), undefined)
  await writer.blobs.write('a blob', parts)
  t.same(await readBy(reader, 'a blob'), parts)
})

test('a piece of another length is replaced by who writes it', { skip: NO_POSTGRES }, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const [writer, reader] = [await storage.open(), await storage.open()]
  const parts = [randomBytes(MIB)]
  await writer.blobs.write('a blob', parts)
  await sql`update pieces set bytes = substring(bytes from 1 for 10)`.execute(writer.db)
  await writer.blobs.write('the same', parts)
  t.same(await readBy(reader, 'a blob'), parts)
})

test('who holds pieces that another could not read writes them again', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const holder = await process(t, storage, 'holder')
  const [lease] = await holder.replicas.leases.take('holder', ['work'], 60_000)
  if (!lease) throw new Error('a free lease is taken')
  const rows = new Uint8Array(new SharedArrayBuffer(2 * MIB + 1))
  rows.set(randomBytes(rows.byteLength))
  const written = [Buffer.from('a head'), Buffer.from(rows)]
  t.equal(await holder.replicas.write('a blob', [Buffer.from('a head'), rows], lease), true)
  await nextTurn()
  collect() // what nobody holds is gone
  await damageAll(holder.store)
  const joining = await storage.open()
  t.equal(await joining.blobs.read('a blob'), undefined)
  const read = await until(
    () => readBy(joining, 'a blob'),
    (found) => found !== undefined,
  )
  t.same(read, written)
  t.ok(rows.byteLength, 'which it held all the time')
})
