/**
 * Blobs as rows, for replicas that share a PostgreSQL: the same contract as the files. A blob's parts are cut into
 * chunks, since one value of hundreds of megabytes costs a multiple of that in memory on both sides.
 */
import type { Kysely, Transaction } from 'kysely'
import type { AddedBlobs } from '../../upstreams/rows/blobs.js'
import type { Tables } from '../database/schema.js'
import { type Lease, stands } from '../replicas/leases.js'

const CHUNK_BYTES = 4 * 1024 * 1024

export type BlobRows = AddedBlobs & {
  /** The same as `write` while the lease stands; false when it does not. */
  writeUnder(lease: Lease, name: string, parts: readonly Uint8Array[]): Promise<boolean>
}

export type BlobRowsOptions = {
  db: Kysely<Tables>
  /** Told of each blob that is there but cannot be believed. */
  onDamage: (name: string, reason: string) => void
}

function* chunksOf(part: Uint8Array): Generator<Buffer> {
  for (let start = 0; start < part.byteLength; start += CHUNK_BYTES) {
    const length = Math.min(CHUNK_BYTES, part.byteLength - start)
    yield Buffer.from(part.buffer, part.byteOffset + start, length)
  }
}

export function createBlobRows({ db, onDamage }: BlobRowsOptions): BlobRows {
  // One snapshot for the lengths and all chunks: a writer that replaces the blob meanwhile is not seen.
  async function read(name: string): Promise<Uint8Array[] | undefined> {
    return await db
      .transaction()
      .setIsolationLevel('repeatable read')
      .setAccessMode('read only')
      .execute(async (tx) => {
        const blob = await tx.selectFrom('blobs').select('parts').where('name', '=', name).executeTakeFirst()
        if (!blob) return undefined
        const parts: Uint8Array[] = []
        for (const [part, length] of (JSON.parse(blob.parts) as number[]).entries()) {
          const bytes = new Uint8Array(new SharedArrayBuffer(length)) // a worker reads it without a copy
          let filled = 0
          for (let chunk = 0; filled < length; chunk += 1) {
            const row = await tx
              .selectFrom('blob_chunks')
              .select('bytes')
              .where('name', '=', name)
              .where('part', '=', part)
              .where('chunk', '=', chunk)
              .executeTakeFirst()
            if (!row || filled + row.bytes.byteLength > length) {
              onDamage(name, 'a chunk is missing or too long')
              return undefined
            }
            bytes.set(row.bytes, filled)
            filled += row.bytes.byteLength
          }
          parts.push(bytes)
        }
        return parts
      })
  }

  async function writeChunks(tx: Transaction<Tables>, name: string, parts: readonly Uint8Array[]) {
    for (const [part, content] of parts.entries()) {
      let chunk = 0
      for (const bytes of chunksOf(content)) {
        await tx.insertInto('blob_chunks').values({ name, part, chunk, bytes }).execute()
        chunk += 1
      }
    }
  }

  const lengthsOf = (parts: readonly Uint8Array[]) => JSON.stringify(parts.map((part) => part.byteLength))

  async function replace(tx: Transaction<Tables>, name: string, parts: readonly Uint8Array[]): Promise<void> {
    const lengths = lengthsOf(parts)
    // The row is taken first, so that two writers of one name come one after the other.
    await tx
      .insertInto('blobs')
      .values({ name, parts: lengths })
      .onConflict((conflict) => conflict.column('name').doUpdateSet({ parts: lengths }))
      .execute()
    await tx.deleteFrom('blob_chunks').where('name', '=', name).execute()
    await writeChunks(tx, name, parts)
  }

  const write = (name: string, parts: readonly Uint8Array[]): Promise<void> =>
    db.transaction().execute((tx) => replace(tx, name, parts))

  async function writeUnder(lease: Lease, name: string, parts: readonly Uint8Array[]): Promise<boolean> {
    return await db.transaction().execute(async (tx) => {
      if (!(await stands(tx, lease))) return false
      await replace(tx, name, parts)
      return true
    })
  }

  async function add(name: string, parts: readonly Uint8Array[]): Promise<void> {
    await db.transaction().execute(async (tx) => {
      // Waits for another transaction that inserts the same name, and does nothing when that one is kept.
      const { numInsertedOrUpdatedRows } = await tx
        .insertInto('blobs')
        .values({ name, parts: lengthsOf(parts) })
        .onConflict((conflict) => conflict.doNothing())
        .executeTakeFirst()
      if (numInsertedOrUpdatedRows === 1n) await writeChunks(tx, name, parts)
    })
  }

  async function remove(name: string): Promise<void> {
    await db.deleteFrom('blobs').where('name', '=', name).execute()
  }

  async function list(prefix: string): Promise<string[]> {
    const rows = await db.selectFrom('blobs').select('name').execute()
    return rows
      .map((row) => row.name)
      .filter((name) => name.startsWith(prefix))
      .sort()
  }

  return { read, write, writeUnder, add, remove, list }
}
