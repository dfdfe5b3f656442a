/**
 * The bytes of blobs in PostgreSQL, in pieces under the hash of their content: pieces that exist are not written again, and pieces
 * that this process holds are not read again. A row whose bytes do not match its name is no piece: whoever reads it removes it, and
 * tells what is lacking, and every process that holds such a piece writes it again.
 */
import { webcrypto } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import { POSTGRES, type Tables } from './database/database.js'
import { LACKING, told } from './replicas/notes.js'

const PIECE_BYTES = 1024 * 1024 // hashed and sent one at a time, so that none blocks the event loop for more than milliseconds
/** How long a piece may exist before a blob uses it. Whoever takes long to write marks its pieces again. */
const UNUSED_MS = 2 * 60_000
const MARKED_MS = 30_000
const CHECKED_AT_ONCE = 64 // pieces, which the server hashes in less than a second

/** A part of a blob: its length, and the names of its pieces, all of one size except the last. */
export type PartNames = [bytes: number, pieces: string[]]

/** Where a piece or a part is in memory. Only shared memory is used for this, because its content never changes. */
type Home = { memory: WeakRef<SharedArrayBuffer>; offset: number; bytes: number }
/** The parts that lie in one memory, and the names of their pieces: `offset:length` -> names. */
type PartsOf = Map<string, string[]>

const lengthAt = (bytes: number, at: number) => Math.min(PIECE_BYTES, bytes - at * PIECE_BYTES)

const isLiving = ({ memory }: Home) => memory.deref() !== undefined

function bytesAt({ memory, offset, bytes }: Home): Uint8Array | undefined {
  const held = memory.deref()
  return held && new Uint8Array(held, offset, bytes)
}

/** Hashed in another thread, over a copy, because the hash function does not accept shared memory. */
async function nameOf(piece: Uint8Array): Promise<string> {
  return Buffer.from(await webcrypto.subtle.digest('SHA-256', new Uint8Array(piece))).toString('base64url')
}

/** Remembers pieces for as long as somebody holds their memory. */
export function createPieces(db: Kysely<Tables>) {
  const named = new WeakMap<SharedArrayBuffer, PartsOf>()
  const wholes = new Map<string, Home>() // by the names of all their pieces
  const homes = new Map<string, readonly Home[]>() // of each piece every one: any of them may be the last that lives
  const forgotten = new FinalizationRegistry<string[]>((names) => {
    for (const name of names) {
      const living = livingOf(name)
      if (living.length > 0) homes.set(name, living)
      else homes.delete(name)
    }
    if (!wholes.get(names.join())?.memory.deref()) wholes.delete(names.join())
  })

  const livingOf = (name: string) => (homes.get(name) ?? []).filter(isLiving)

  const placeOf = ({ byteOffset, byteLength }: Uint8Array) => `${byteOffset}:${byteLength}`

  /** Remembers that this memory holds the part, so that its pieces are found there. */
  function settle(memory: SharedArrayBuffer, part: Uint8Array, names: string[]): void {
    const parts: PartsOf = named.get(memory) ?? new Map()
    named.set(memory, parts.set(placeOf(part), names))
    const ref = new WeakRef(memory)
    wholes.set(names.join(), { memory: ref, offset: part.byteOffset, bytes: part.byteLength })
    for (const [at, name] of names.entries()) {
      const offset = part.byteOffset + at * PIECE_BYTES
      homes.set(name, [...livingOf(name), { memory: ref, offset, bytes: lengthAt(part.byteLength, at) }])
    }
    forgotten.register(memory, names)
  }

  function heldPiece(name: string): Uint8Array | undefined {
    const home = homes.get(name)?.find(isLiving)
    return home && bytesAt(home)
  }

  /** The whole part from memory, if it is held. */
  function heldPart([, names]: PartNames): Uint8Array | undefined {
    const home = wholes.get(names.join())
    return home && bytesAt(home)
  }

  /**
   * Marks existing pieces as used again; returns the missing ones. One of another length is none. The bytes are not looked at: the
   * server would hash the whole feed for each price that changes. Whoever reads them looks.
   */
  async function missingOf(lengths: ReadonlyMap<string, number>): Promise<Set<string>> {
    const names = [...lengths.keys()]
    const { rows } = await sql<{ name: string; bytes: number }>`update pieces set used_at = ${POSTGRES.now()}
      where name in (select name from pieces where name = any(${names}::text[]) order by name for update)
      returning name, octet_length(bytes) as bytes`.execute(db)
    const there = new Map(rows.map(({ name, bytes }) => [name, bytes]))
    return new Set(names.filter((name) => there.get(name) !== lengths.get(name)))
  }

  async function store(name: string, piece: Uint8Array): Promise<void> {
    const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)
    await sql`insert into pieces (name, bytes, used_at) values (${name}, ${bytes}, ${POSTGRES.now()})
      on conflict (name) do update set bytes = excluded.bytes, used_at = excluded.used_at`.execute(db)
  }

  /** Removes those whose bytes do not match their names. The names are base64url of 32 bytes, without its `=`. */
  async function removeDamaged(names: readonly string[]): Promise<void> {
    for (let at = 0; at < names.length; at += CHECKED_AT_ONCE) {
      const some = names.slice(at, at + CHECKED_AT_ONCE)
      await sql`delete from pieces where name in (select name from pieces where name = any(${some}::text[])
        and sha256(bytes) <> decode(translate(name, '-_', '+/') || '=', 'base64') order by name for update)`.execute(
        db,
      )
    }
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
      const lengths = made.flatMap(([bytes, names]) =>
        names.map((name, at) => [name, lengthAt(bytes, at)] as const),
      )
      const all = new Map(lengths)
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
    /** The part in shared memory, the same for equal content; else what is wrong with the first piece that is not there as written. */
    async read(of: PartNames): Promise<Uint8Array | 'missing' | 'damaged'> {
      const held = heldPart(of)
      if (held) return held
      const [bytes, names] = of
      const memory = new SharedArrayBuffer(bytes)
      const part = new Uint8Array(memory)
      for (const [at, name] of names.entries()) {
        const length = lengthAt(bytes, at)
        const known = heldPiece(name)
        if (known) {
          part.set(known, at * PIECE_BYTES)
          continue
        }
        const row = await db.selectFrom('pieces').select('bytes').where('name', '=', name).executeTakeFirst()
        if (!row) return 'missing'
        if (row.bytes.byteLength !== length || (await nameOf(row.bytes)) !== name) return 'damaged'
        part.set(row.bytes, at * PIECE_BYTES)
      }
      settle(memory, part, names)
      return part
    },
    removeDamaged,
    /** Tells all processes which of these are missing, so that whoever holds them writes them again. */
    async tellLacking(names: readonly string[]): Promise<void> {
      const rows = await db.selectFrom('pieces').select('name').where('name', 'in', names).execute()
      const there = new Set(rows.map(({ name }) => name))
      const lacking = names.filter((name) => !there.has(name))
      if (lacking.length > 0) await db.transaction().execute((tx) => told(tx, LACKING, lacking))
    },
    /** Writes those of these pieces again that this process holds and that are missing. */
    async mend(names: readonly string[]): Promise<void> {
      const held = new Map<string, Uint8Array>()
      for (const name of names) {
        const piece = heldPiece(name)
        if (piece) held.set(name, piece)
      }
      if (held.size === 0) return
      const missing = await missingOf(new Map([...held].map(([name, { byteLength }]) => [name, byteLength])))
      for (const [name, piece] of held) if (missing.has(name)) await store(name, piece)
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
