/**
 * Blobs as rows, for replicas that share a PostgreSQL: the same contract as for files. A blob is one row that lists its
 * pieces (pieces.ts). Earlier releases stored each blob's bytes in one row; such a row is read when there is no newer
 * form.
 */
import type { Kysely } from 'kysely'
import type { AddedBlobs } from '../../upstreams/rows/blobs.js'
import type { Db, Tables } from '../database/table-types.js'
import { type Lease, leaseStands } from '../replicas/leases.js'
import { createPieces, type PartNames } from './pieces.js'

type BlobRows = AddedBlobs & {
  /** Like `write`, but only while this process holds the lease; false when it does not. */
  writeUnder(lease: Lease, name: string, parts: readonly Uint8Array[]): Promise<boolean>
  /** Like `remove`, but only while this process holds the lease. */
  removeUnder(lease: Lease, name: string): Promise<void>
  /** Bytes that go with each of these blobs, when those before it have gone. */
  freed(blobs: readonly string[]): Promise<number[]>
  /** Removes pieces that no blob uses any more. */
  sweep(): Promise<void>
}

type BlobRowsOptions = {
  db: Kysely<Tables>
  /** Receives each blob that exists but is damaged. */
  onDamage: (name: string, reason: string) => void
}

/** `onDamage` is told of a blob that cannot be read as it was written; it then counts as missing. */
export function createBlobRows({ db, onDamage }: BlobRowsOptions): BlobRows {
  const pieces = createPieces(db)

  async function manifestOf(name: string): Promise<string | undefined> {
    const row = await db.selectFrom('manifests').select('parts').where('name', '=', name).executeTakeFirst()
    return row?.parts
  }

  async function partsOf(manifest: string): Promise<Uint8Array[] | undefined> {
    const parts: Uint8Array[] = []
    for (const names of JSON.parse(manifest) as PartNames[]) {
      const part = await pieces.read(names)
      if (!part) return undefined
      parts.push(part)
    }
    return parts
  }

  /** The form of earlier releases. */
  async function readOlder(name: string): Promise<Uint8Array[] | undefined> {
    const blob = await db.selectFrom('blobs').select('parts').where('name', '=', name).executeTakeFirst()
    if (!blob) return undefined
    const parts = (JSON.parse(blob.parts) as number[]).map((length) => ({
      bytes: new Uint8Array(new SharedArrayBuffer(length)),
      filled: 0,
    }))
    const places = db.selectFrom('blob_chunks').where('name', '=', name).orderBy('part').orderBy('chunk')
    for (const { part, chunk } of await places.select(['part', 'chunk']).execute()) {
      const one = places.select('bytes').where('part', '=', part).where('chunk', '=', chunk)
      const bytes = (await one.executeTakeFirst())?.bytes ?? new Uint8Array()
      const into = parts[part]
      if (!into || into.filled + bytes.byteLength > into.bytes.byteLength) break
      into.bytes.set(bytes, into.filled)
      into.filled += bytes.byteLength
    }
    if (parts.every(({ bytes, filled }) => filled === bytes.byteLength))
      return parts.map(({ bytes }) => bytes)
    onDamage(name, 'a chunk is missing or too long')
    return undefined
  }

  async function read(name: string): Promise<Uint8Array[] | undefined> {
    let manifest = await manifestOf(name)
    if (manifest === undefined) return readOlder(name)
    for (;;) {
      const parts = await partsOf(manifest)
      if (parts) return parts
      // If the blob was replaced during the read, its old pieces may be gone: read the new list of pieces.
      const now = await manifestOf(name)
      if (now === undefined) return undefined
      if (now === manifest) {
        onDamage(name, 'a piece is missing or damaged')
        return undefined
      }
      manifest = now
    }
  }

  async function put(to: Db, name: string, parts: string): Promise<void> {
    await to
      .insertInto('manifests')
      .values({ name, parts })
      .onConflict((conflict) => conflict.column('name').doUpdateSet({ parts }))
      .execute()
    await to.deleteFrom('blobs').where('name', '=', name).execute()
  }

  async function write(name: string, parts: readonly Uint8Array[]): Promise<void> {
    const manifest = JSON.stringify(await pieces.write(parts))
    await db.transaction().execute((tx) => put(tx, name, manifest))
  }

  async function writeUnder(lease: Lease, name: string, parts: readonly Uint8Array[]): Promise<boolean> {
    const manifest = JSON.stringify(await pieces.write(parts))
    return await db.transaction().execute(async (tx) => {
      if (!(await leaseStands(tx, lease))) return false
      await put(tx, name, manifest)
      return true
    })
  }

  async function add(name: string, parts: readonly Uint8Array[]): Promise<void> {
    const older = await db.selectFrom('blobs').select('name').where('name', '=', name).executeTakeFirst()
    if (older) return
    const manifest = JSON.stringify(await pieces.write(parts))
    // Waits for another transaction that inserts the same name, and does nothing when that one commits.
    await db
      .insertInto('manifests')
      .values({ name, parts: manifest })
      .onConflict((conflict) => conflict.doNothing())
      .execute()
  }

  async function take(from: Db, name: string): Promise<void> {
    await from.deleteFrom('manifests').where('name', '=', name).execute()
    await from.deleteFrom('blobs').where('name', '=', name).execute()
  }

  async function removeUnder(lease: Lease, name: string): Promise<void> {
    await db.transaction().execute(async (tx) => {
      if (await leaseStands(tx, lease)) await take(tx, name)
    })
  }

  async function list(prefix: string): Promise<string[]> {
    const rows = await db
      .selectFrom('manifests')
      .select('name')
      .union(db.selectFrom('blobs').select('name'))
      .execute()
    return rows
      .map((row) => row.name)
      .filter((name) => name.startsWith(prefix))
      .sort()
  }

  const remove = (name: string) => take(db, name)
  const { freed, sweep } = pieces

  return { read, write, writeUnder, add, remove, removeUnder, list, freed, sweep }
}
