/** Processes that start at the same moment on an empty storage sign cursors with one secret. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { pino } from 'pino'
import { test } from 'tap'
import { startFederation } from '../../src/composition/federation.js'
import { parseConfig } from '../../src/config/load.js'
import { systemClock } from '../../src/net/clock.js'
import { cursorSecret } from '../../src/store/replicas/cursors.js'
import { bare, embedded, NO_POSTGRES, shared } from '../store/support/storages.js'

const STARTS = 8
const hex = (secret: Uint8Array) => Buffer.from(secret).toString('hex')

test('eight starts at once on a fresh database end with one secret', { skip: NO_POSTGRES }, async (t) => {
  const storage = await shared(t)
  if (!storage) return
  const stores = await Promise.all(Array.from({ length: STARTS }, () => storage.open()))
  const secrets = await Promise.all(stores.map(({ blobs }) => cursorSecret(blobs)))
  t.equal(new Set(secrets.map(hex)).size, 1)
  const { blobs } = await storage.open()
  t.equal(hex(await cursorSecret(blobs)), hex(secrets[0] as Uint8Array), 'it is what stays in the storage')
})

test('a database in which it cannot be looked for ends the start with a sentence', {
  skip: NO_POSTGRES,
}, async (t) => {
  const storage = await bare(t)
  if (!storage) return
  const { db, close } = await storage.open()
  await sql.raw('alter table manifests rename column parts to portions').execute(db)
  await close()
  const config = parseConfig('test', JSON.stringify({ storage: { url: storage.url } }), {})
  await t.rejects(
    startFederation({
      ...{ config, version: '0.0.0', clock: systemClock, random: Math.random },
      log: pino({ level: 'silent' }),
    }),
    { name: 'StorageUnusable', message: /cannot be used as it is: column "parts" does not exist/ },
  )
})

test('a folder keeps its secret over a restart', async (t) => {
  const storage = await embedded(t)
  const first = await storage.open()
  const secrets = await Promise.all(Array.from({ length: STARTS }, () => cursorSecret(first.blobs)))
  t.equal(new Set(secrets.map(hex)).size, 1)
  await first.close()
  const { blobs } = await storage.open()
  t.equal(hex(await cursorSecret(blobs)), hex(secrets[0] as Uint8Array))
})

test('a secret that is damaged on disk gives way to a new one, which stays', async (t) => {
  const storage = await embedded(t)
  const { blobs } = await storage.open()
  await cursorSecret(blobs)
  await writeFile(join(storage.url.slice('file:'.length), 'blobs', 'cursor-secret.blob'), 'damaged')
  const fresh = await cursorSecret(blobs)
  t.same(await cursorSecret(blobs), fresh)
})
