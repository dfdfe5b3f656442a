/**
 * Blobs as rows, for replicas that share a PostgreSQL: the same contract as for files. A piece (pieces.ts) never changes, so a blob's
 * pieces are written first, without any lock; one row that lists them, its manifest, then makes them the blob. Earlier releases
 * stored each blob's bytes in one row; such a row is read when there is no newer form.
 */
import type { Kysely } from 'kysely'
import { LRUCache } from 'lru-cache'
import { sharedBytes } from '../upstreams/rows/slab.js'
import { type AddedBlobs, type BegunPart, begunParts, type Word } from '../upstreams/rows/storage.js'
import type { Db, Tables } from './database/database.js'
import { createPieces, type PartNames } from './pieces.js'
import { type Lease, leaseStands } from './replicas/leases.js'
import { told } from './replicas/notes.js'

const KEPT_BYTES = 32 * 1024 * 1024

type BlobRows = AddedBlobs & {
  /** Like `write`, but only while this process holds the lease, and together with a note; false when it does not hold it. */
  writeUnder(name: string, parts: readonly Uint8Array[], lease: Lease, word?: Word): Promise<boolean>
  /** Like `remove`, but only while this process holds the lease. */
  removeUnder(name: string, lease: Lease): Promise<void>
  /** Bytes that go with each of these blobs, when those before it have gone. */
  freed(blobs: readonly string[]): Promise<number[]>
  /** Writes those of these pieces again that this process holds and the storage lacks. */
  mend(pieces: readonly string[]): Promise<void>
  /** Removes pieces that no blob uses any more. */
  sweep(): Promise<void>
}

type BlobRowsOptions = {
  db: Kysely<Tables>
  /** Receives each blob that exists but is damaged. */
  onDamage: (name: string, reason: string) => void
}

const piecesOf = (parts: readonly PartNames[]) => [...new Set(parts.flatMap(([, names]) => names))]

/** `onDamage` is told of a blob that cannot be read as it was written; it then counts as missing. */
export function createBlobRows({ db, onDamage }: BlobRowsOptions): BlobRows {
  const pieces = createPieces(db)
  /** Of blobs that this process wrote under a lease, by name: what came in memory that is not shared, and nobody else holds. */
  const kept = new LRUCache<string, readonly Uint8Array[]>({
    maxSize: KEPT_BYTES,
    sizeCalculation: (parts) => parts.reduce((sum, { byteLength }) => sum + byteLength, 1),
  })

  async function manifestOf(name: string): Promise<string | undefined> {
    const row = await db.selectFrom('manifests').select('parts').where('name', '=', name).executeTakeFirst()
    return row?.parts
  }

  async function partsOf(manifest: string): Promise<Uint8Array[] | undefined> {
    const parts: Uint8Array[] = []
    const all = JSON.parse(manifest) as PartNames[]
    for (const names of all) {
      const part = await pieces.read(names)
      if (part === 'damaged') await pieces.removeDamaged(piecesOf(all))
      if (typeof part === 'string') return undefined
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
        await pieces.tellLacking(piecesOf(JSON.parse(manifest) as PartNames[]))
        return undefined
      }
      manifest = now
    }
  }

  async function begin(name: string): Promise<BegunPart[] | undefined> {
    const parts = await read(name)
    return parts && begunParts(parts)
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

  async function writeUnder(
    name: string,
    parts: readonly Uint8Array[],
    lease: Lease,
    word?: Word,
  ): Promise<boolean> {
    const shared = parts.map((part) =>
      part.buffer instanceof SharedArrayBuffer ? part : new Uint8Array(sharedBytes(part)),
    )
    const manifest = JSON.stringify(await pieces.write(shared))
    const isWritten = await db.transaction().execute(async (tx) => {
      if (!(await leaseStands(tx, lease))) return false
      await put(tx, name, manifest)
      if (word) await told(tx, word.name, word.value)
      return true
    })
    const own = shared.filter((part, at) => part !== parts[at])
    if (isWritten) kept.set(name, own)
    return isWritten
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

  async function removeUnder(name: string, lease: Lease): Promise<void> {
    kept.delete(name)
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
  const { freed, mend, sweep } = pieces

  return { read, begin, write, writeUnder, add, remove, removeUnder, list, freed, mend, sweep }
}
