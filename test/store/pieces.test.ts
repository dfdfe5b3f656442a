/** Of a generation only what changed is hashed again: its other bytes keep their names. */
import { webcrypto } from 'node:crypto'
import { sql } from 'kysely'
import { test } from 'tap'
import { createBuilderHost } from '../../src/snapshot/builder-host.js'
import { wholeParts } from '../../src/snapshot/snapshot.js'
import { listing, sliceOf } from '../feed/world.js'
import { NO_POSTGRES, shared } from './support/storages.js'

const ROWS = 500

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
