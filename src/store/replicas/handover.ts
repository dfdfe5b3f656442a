/**
 * What processes on one PostgreSQL keep for callers for some minutes, so that any of them can continue what another began: the order of
 * an answer for its further pages, and the tasks of A2A. A process that is alone keeps the same in its memory.
 */
import { sql } from 'kysely'
import { type Db, POSTGRES } from '../database/database.js'
import type { Seal } from '../database/seal.js'

const MEBIBYTE = 1024 * 1024
const TRIM_EVERY_MS = 1_000
const ROW_BYTES = 200 // of one without bytes

type Bounds = { ms: number; rows: number; bytes: number }

/** Of one owner. Bodies are bytes that several of its tasks share. */
const BOUNDS = {
  answer: { ms: 15 * 60_000, rows: 50, bytes: 8 * MEBIBYTE },
  task: { ms: 10 * 60_000, rows: 2_000, bytes: MEBIBYTE },
  body: { ms: 10 * 60_000, rows: 2_000, bytes: 64 * MEBIBYTE },
} satisfies Record<string, Bounds>
/** Of all owners together, for each kind. */
const IN_ALL = { rows: 20_000, bytes: 256 * MEBIBYTE }

type HandoverKind = keyof typeof BOUNDS

export type HandoverItem = {
  /** Unguessable, and of this item alone. */
  name: string
  kind: HandoverKind
  owner: string
  /** Words that are no secret. */
  about?: string
  /** The name of the item that has its bytes; it is kept as long as this one. */
  body?: string
  bytes?: Uint8Array
}

export type FoundItem = { name: string; about: string; bytes: Uint8Array }

export type Handover = {
  /** Bytes of bodies are written only where they are not there yet. */
  keep(items: readonly HandoverItem[]): Promise<void>
  /** The item of that owner, with its bytes; undefined when there is none any more. */
  find(kind: HandoverKind, owner: string, name: string): Promise<FoundItem | undefined>
  /** All of an owner that can be found, without their bytes, in no order. */
  listed(kind: HandoverKind, owner: string): Promise<Omit<FoundItem, 'bytes'>[]>
  /** Those of an owner that are there, with their bytes, in no order. */
  these(kind: HandoverKind, owner: string, names: readonly string[]): Promise<FoundItem[]>
}

/**
 * Encrypted, because answers hold activation keys: without `storage.key` nothing is kept. Bounded for each owner and in all. The
 * table is called `shelf`. `now`, ms, decides only how often what is too old is deleted; ages are by the database's clock.
 */
export function createHandover(db: Db, seal: Seal, now: () => number): Handover {
  const owners = new Set<string>()
  let trimmedAt = 0

  /** The newest stay, as many and as large as the bounds allow; others may be doing the same. */
  async function trimTo(kind: HandoverKind, { rows, bytes }: Omit<Bounds, 'ms'>, of?: readonly string[]) {
    const part = of ? sql`partition by owner` : sql``
    const some = of ? sql`and owner = any(${of}::text[])` : sql``
    await sql`delete from shelf where name in (select name from shelf where name in (
        select name from (
          select name, row_number() over newer as place, sum(size) over newer as bytes from shelf
          where kind = ${kind} ${some} window newer as (${part} order by kept_at desc, name)
        ) as placed where place > ${rows} or bytes > ${bytes}
      ) for update skip locked)`.execute(db)
  }

  async function trim(): Promise<void> {
    if (now() < trimmedAt + TRIM_EVERY_MS) return
    trimmedAt = now()
    const written = [...owners]
    owners.clear()
    for (const [kind, bounds] of Object.entries(BOUNDS) as [HandoverKind, Bounds][]) {
      await sql`delete from shelf where name in (select name from shelf
        where kind = ${kind} and kept_at < ${POSTGRES.now()} - ${bounds.ms} for update skip locked)`.execute(
        db,
      )
      await trimTo(kind, bounds, written)
      await trimTo(kind, IN_ALL)
    }
  }

  /** Which of them are there; these now count as new, because a new item is about to need them. */
  async function renewed(names: readonly string[]): Promise<ReadonlySet<string>> {
    if (names.length === 0) return new Set()
    const { rows } = await sql<{ name: string }>`update shelf set kept_at = ${POSTGRES.now()}
      where name in (select name from shelf where name = any(${names}::text[]) order by name for update)
      returning name`.execute(db)
    return new Set(rows.map(({ name }) => name))
  }

  async function keep(items: readonly HandoverItem[]): Promise<void> {
    const there = await renewed(items.flatMap(({ kind, name }) => (kind === 'body' ? [name] : [])))
    const values = items.flatMap(({ name, kind, owner, about = '', body = null, bytes }) => {
      if (there.has(name)) return []
      const hidden = bytes && seal.hide(bytes)
      if (bytes && !hidden) return []
      owners.add(owner)
      const size = ROW_BYTES + (hidden?.byteLength ?? 0)
      const row = { name, kind, owner, about, body, size, bytes: hidden ?? null }
      return [{ ...row, kept_at: sql<number>`${POSTGRES.now()}` }]
    })
    if (values.length > 0) {
      const insert = db.insertInto('shelf').values(values)
      await insert.onConflict((conflict) => conflict.column('name').doNothing()).execute()
    }
    await trim()
  }

  const bytes = sql<Uint8Array | null>`coalesce(item.bytes, whole.bytes)`

  const foundOf = (kind: HandoverKind, owner: string) =>
    db
      .selectFrom('shelf as item')
      .leftJoin('shelf as whole', (join) =>
        join.onRef('whole.name', '=', 'item.body').onRef('whole.owner', '=', 'item.owner'),
      )
      .select(['item.name', 'item.about'])
      .where('item.kind', '=', kind)
      .where('item.owner', '=', owner)
      .where('item.kept_at', '>=', sql<number>`${POSTGRES.now()} - ${BOUNDS[kind].ms}`)
      .where(bytes, 'is not', null)

  const rowsOf = (kind: HandoverKind, owner: string) => foundOf(kind, owner).select(bytes.as('bytes'))

  function shown({ name, about, bytes }: { name: string; about: string; bytes: Uint8Array | null }) {
    const clear = bytes && seal.show(bytes)
    return clear ? [{ name, about, bytes: clear }] : []
  }

  return {
    keep,
    async find(kind, owner, name) {
      const row = await rowsOf(kind, owner).where('item.name', '=', name).executeTakeFirst()
      return row && shown(row)[0]
    },
    listed: (kind, owner) =>
      foundOf(kind, owner).orderBy('item.kept_at', 'desc').limit(BOUNDS[kind].rows).execute(),
    async these(kind, owner, names) {
      const rows = await rowsOf(kind, owner).where('item.name', 'in', names).execute()
      return rows.flatMap(shown)
    },
  }
}
