/**
 * Blobs as rows, for replicas that share a PostgreSQL: the same contract as for files. Bytes are stored in pieces under the hash of
 * their content: pieces that exist are not written again, and pieces that this process holds are not read again. A piece never
 * changes, so a blob's pieces are written first, without any lock; one row that lists them then makes them the blob. Earlier releases
 * stored each blob's bytes in one row; such a row is read when there is no newer form.
 */
import { webcrypto } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import { type AddedBlobs, type BegunPart, begunParts, type Word } from '../upstreams/rows/storage.js'
import { type Db, POSTGRES, type Tables } from './database/database.js'
import { type Lease, leaseStands } from './replicas/leases.js'
import { told } from './replicas/notes.js'

const PIECE_BYTES = 1024 * 1024 // hashed and sent one at a time, so that none blocks the event loop for more than milliseconds
/** How long a piece may exist before a blob uses it. Whoever takes long to write marks its pieces again. */
const UNUSED_MS = 2 * 60_000
const MARKED_MS = 30_000

/** A part of a blob: its length, and the names of its pieces, all of one size except the last. */
type PartNames = [bytes: number, pieces: string[]]

/** Where a piece or a part is in memory. Only shared memory is used for this, because its content never changes. */
type Home = { memory: WeakRef<SharedArrayBuffer>; offset: number }
/** The parts that lie in one memory, and the names of their pieces: `offset:length` -> names. */
type PartsOf = Map<string, string[]>

const lengthAt = (bytes: number, at: number) => Math.min(PIECE_BYTES, bytes - at * PIECE_BYTES)

/** Hashed in another thread, over a copy, because the hash function does not accept shared memory. */
async function nameOf(piece: Uint8Array): Promise<string> {
  return Buffer.from(await webcrypto.subtle.digest('SHA-256', new Uint8Array(piece))).toString('base64url')
}

/** Remembers pieces for as long as somebody holds their memory. */
function createPieces(db: Kysely<Tables>) {
  const named = new WeakMap<SharedArrayBuffer, PartsOf>()
  const wholes = new Map<string, Home>() // by the names of all their pieces
  const homes = new Map<string, Home>()
  const forgotten = new FinalizationRegistry<string[]>((names) => {
    for (const name of names) if (!homes.get(name)?.memory.deref()) homes.delete(name)
    if (!wholes.get(names.join())?.memory.deref()) wholes.delete(names.join())
  })

  const placeOf = ({ byteOffset, byteLength }: Uint8Array) => `${byteOffset}:${byteLength}`

  /** Remembers that this memory holds the part, so that its pieces are found there. */
  function settle(memory: SharedArrayBuffer, part: Uint8Array, names: string[]): void {
    const parts: PartsOf = named.get(memory) ?? new Map()
    named.set(memory, parts.set(placeOf(part), names))
    const ref = new WeakRef(memory)
    wholes.set(names.join(), { memory: ref, offset: part.byteOffset })
    for (const [at, name] of names.entries()) {
      if (homes.get(name)?.memory.deref()) continue
      homes.set(name, { memory: ref, offset: part.byteOffset + at * PIECE_BYTES })
    }
    forgotten.register(memory, names)
  }

  function heldPiece(name: string, length: number): Uint8Array | undefined {
    const home = homes.get(name)
    const memory = home?.memory.deref()
    return home && memory && new Uint8Array(memory, home.offset, length)
  }

  /** The whole part from memory, if it is held. */
  function heldPart([bytes, names]: PartNames): Uint8Array | undefined {
    const home = wholes.get(names.join())
    const memory = home?.memory.deref()
    return home && memory && new Uint8Array(memory, home.offset, bytes)
  }

  /** Marks existing pieces as used again; returns the missing ones. */
  async function missingOf(names: readonly string[]): Promise<Set<string>> {
    const { rows } = await sql<{ name: string }>`update pieces set used_at = ${POSTGRES.now()}
      where name in (select name from pieces where name = any(${names}::text[]) order by name for update)
      returning name`.execute(db)
    const there = new Set(rows.map(({ name }) => name))
    return new Set(names.filter((name) => !there.has(name)))
  }

  async function store(name: string, piece: Uint8Array): Promise<void> {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)
    await sql`insert into pieces (name, bytes, used_at) values (${name}, ${bytes}, ${POSTGRES.now()})
      on conflict (name) do update set used_at = excluded.used_at`.execute(db)
  }

  async function namesOf(part: Uint8Array): Promise<string[]> {
    const { buffer, byteLength } = part
    const memory = buffer instanceof SharedArrayBuffer ? buffer : undefined
    const known = memory && named.get(memory)?.get(placeOf(part))
    if (known) return known
    const names: string[] = []
    for (let start = 0; start < byteLength; start += PIECE_BYTES) {
      names.push(await nameOf(part.subarray(start, start + PIECE_BYTES)))
    }
    if (memory) settle(memory, part, names)
    return names
  }

  return {
    /** Writes the pieces that are missing. */
    async write(parts: readonly Uint8Array[]): Promise<PartNames[]> {
      const made: PartNames[] = []
      for (const part of parts) made.push([part.byteLength, await namesOf(part)])
      const all = [...new Set(made.flatMap(([, names]) => names))]
      for (;;) {
        const markedAt = performance.now()
        const missing = await missingOf(all)
        for (const [index, [bytes, names]] of made.entries()) {
          const part = parts[index] as Uint8Array
          for (const [at, name] of names.entries()) {
            if (!missing.delete(name)) continue
            await store(name, part.subarray(at * PIECE_BYTES, at * PIECE_BYTES + lengthAt(bytes, at)))
          }
        }
        if (performance.now() - markedAt < MARKED_MS) return made
      }
    },
    /**
     * The part in shared memory, the same for equal content; undefined when a piece is missing or does not match its
     * name.
     */
    async read(of: PartNames): Promise<Uint8Array | undefined> {
      const held = heldPart(of)
      if (held) return held
      const [bytes, names] = of
      const memory = new SharedArrayBuffer(bytes)
      const part = new Uint8Array(memory)
      for (const [at, name] of names.entries()) {
        const length = lengthAt(bytes, at)
        const known = heldPiece(name, length)
        if (known) {
          part.set(known, at * PIECE_BYTES)
          continue
        }
        const row = await db.selectFrom('pieces').select('bytes').where('name', '=', name).executeTakeFirst()
        if (row?.bytes.byteLength !== length || (await nameOf(row.bytes)) !== name) return undefined
        part.set(row.bytes, at * PIECE_BYTES)
      }
      settle(memory, part, names)
      return part
    },
    /** Bytes that go with each of these blobs, when those before it have gone. */
    async freed(blobs: readonly string[]): Promise<number[]> {
      const { rows } = await sql<{ at: number; bytes: number }>`with uses as (
          select manifests.name as blob, jsonb_array_elements_text(part->1) as piece
          from manifests, jsonb_array_elements(parts::jsonb) as part
        ), ends as (
          select piece, max(coalesce(given.at, ${blobs.length + 1})) as at from uses
          left join unnest(${blobs}::text[]) with ordinality as given (name, at) on given.name = uses.blob
          group by piece
        )
        select ends.at::int as at, sum(octet_length(pieces.bytes))::float8 as bytes
        from ends join pieces on pieces.name = ends.piece where ends.at <= ${blobs.length} group by ends.at`.execute(
        db,
      )
      const bytes = new Map(rows.map((row) => [row.at, row.bytes]))
      return blobs.map((_, at) => bytes.get(at + 1) ?? 0)
    },
    /** Removes pieces that no blob uses. */
    async sweep(): Promise<void> {
      await sql`delete from pieces where used_at < ${POSTGRES.now()} - ${UNUSED_MS} and not exists (
        select 1 from (select distinct jsonb_array_elements_text(part->1) as name
          from manifests, jsonb_array_elements(parts::jsonb) as part) as used
        where used.name = pieces.name)`.execute(db)
    },
  }
}

type BlobRows = AddedBlobs & {
  /** Like `write`, but only while this process holds the lease, and together with a note; false when it does not hold it. */
  writeUnder(name: string, parts: readonly Uint8Array[], lease: Lease, word?: Word): Promise<boolean>
  /** Like `remove`, but only while this process holds the lease. */
  removeUnder(name: string, lease: Lease): Promise<void>
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
    const manifest = JSON.stringify(await pieces.write(parts))
    return await db.transaction().execute(async (tx) => {
      if (!(await leaseStands(tx, lease))) return false
      await put(tx, name, manifest)
      if (word) await told(tx, word.name, word.value)
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

  async function removeUnder(name: string, lease: Lease): Promise<void> {
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

  return { read, begin, write, writeUnder, add, remove, removeUnder, list, freed, sweep }
}
