/**
 * Bytes under the names of their content, for replicas that share a PostgreSQL: what is there is not written again, and what
 * this process holds is not read again. Pieces are never changed, so that whoever writes a blob writes its pieces first,
 * without holding anybody up, and what makes them the blob is one row.
 */
import { webcrypto } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import { POSTGRES } from '../database/dialect.js'
import type { Tables } from '../database/schema.js'

const PIECE_BYTES = 1024 * 1024 // hashed and sent one at a time: none holds the event loop for more than milliseconds
/** Written, and not yet of a blob: nobody takes longer between the two. */
const UNUSED_MS = 60 * 60 * 1_000

/** A part of a blob: how long it is, and the names of its pieces, which are of one size but for the last. */
export type PartNames = [bytes: number, pieces: string[]]

/** Where a piece lies in memory. Only memory that threads share is looked at: it holds what is never changed. */
type Home = { memory: WeakRef<SharedArrayBuffer>; offset: number }

const lengthAt = (bytes: number, at: number) => Math.min(PIECE_BYTES, bytes - at * PIECE_BYTES)

/** Hashed off this thread, over a copy: shared memory is not taken. */
async function nameOf(piece: Uint8Array): Promise<string> {
  return Buffer.from(await webcrypto.subtle.digest('SHA-256', new Uint8Array(piece))).toString('base64url')
}

export function createPieces(db: Kysely<Tables>) {
  const named = new WeakMap<SharedArrayBuffer, string[]>() // of memory that is one part
  const wholes = new Map<string, WeakRef<SharedArrayBuffer>>() // by the names of all their pieces
  const homes = new Map<string, Home>()
  const forgotten = new FinalizationRegistry<string[]>((names) => {
    for (const name of names) if (!homes.get(name)?.memory.deref()) homes.delete(name)
    if (!wholes.get(names.join())?.deref()) wholes.delete(names.join())
  })

  /** From now on its pieces are found in this memory. */
  function settle(memory: SharedArrayBuffer, names: string[]): void {
    named.set(memory, names)
    const ref = new WeakRef(memory)
    wholes.set(names.join(), ref)
    for (const [at, name] of names.entries()) {
      if (!homes.get(name)?.memory.deref()) homes.set(name, { memory: ref, offset: at * PIECE_BYTES })
    }
    forgotten.register(memory, names)
  }

  function heldPiece(name: string, length: number): Uint8Array | undefined {
    const home = homes.get(name)
    const memory = home?.memory.deref()
    return home && memory && new Uint8Array(memory, home.offset, length)
  }

  /** A part that is held whole. */
  function heldPart([, names]: PartNames): Uint8Array | undefined {
    const memory = wholes.get(names.join())?.deref()
    return memory && new Uint8Array(memory)
  }

  /** Says of those that are there that they are used again; gives the others. */
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
    const memory =
      buffer instanceof SharedArrayBuffer && buffer.byteLength === byteLength ? buffer : undefined
    const known = memory && named.get(memory)
    if (known) return known
    const names: string[] = []
    for (let start = 0; start < byteLength; start += PIECE_BYTES) {
      names.push(await nameOf(part.subarray(start, start + PIECE_BYTES)))
    }
    if (memory) settle(memory, names)
    return names
  }

  return {
    /** Writes what is not there yet. */
    async write(parts: readonly Uint8Array[]): Promise<PartNames[]> {
      const made: PartNames[] = []
      for (const part of parts) made.push([part.byteLength, await namesOf(part)])
      const missing = await missingOf([...new Set(made.flatMap(([, names]) => names))])
      for (const [index, [bytes, names]] of made.entries()) {
        const part = parts[index] as Uint8Array
        for (const [at, name] of names.entries()) {
          if (!missing.delete(name)) continue
          await store(name, part.subarray(at * PIECE_BYTES, at * PIECE_BYTES + lengthAt(bytes, at)))
        }
      }
      return made
    },
    /** In shared memory, the same for the same content; undefined when a piece is gone or is not what its name says. */
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
      settle(memory, names)
      return part
    },
    /** Removes those that no blob is made of. */
    async sweep(): Promise<void> {
      await sql`delete from pieces where used_at < ${POSTGRES.now()} - ${UNUSED_MS} and not exists (
        select 1 from (select distinct jsonb_array_elements_text(part->1) as name
          from manifests, jsonb_array_elements(parts::jsonb) as part) as used
        where used.name = pieces.name)`.execute(db)
    },
  }
}
