/**
 * The whole state, brought to another storage: for instance from the embedded SQLite to a PostgreSQL that replicas will share
 * (`tributary move-storage`).
 */
import { type Kysely, sql, type Transaction } from 'kysely'
import type { Blobs } from '../upstreams/rows/storage.js'
import { STATE_TABLES, type Tables } from './database/database.js'

const BATCH = 200 // rows, of twenty columns: well under the bound-parameter limits of both databases

type StateTable = keyof typeof STATE_TABLES

/** Rows per table and blobs that were moved. */
type Moved = Record<StateTable | 'blobs', number>

const tables = Object.keys(STATE_TABLES) as StateTable[]

async function copyTable(from: Kysely<Tables>, to: Transaction<Tables>, table: StateTable): Promise<number> {
  const inOrder = STATE_TABLES[table].map((column) => sql.ref(column))
  for (let offset = 0; ; offset += BATCH) {
    const rows = await from
      .selectFrom(table)
      .selectAll()
      .orderBy(sql.join(inOrder))
      .limit(BATCH)
      .offset(offset)
      .execute()
    if (rows.length > 0) await to.insertInto(table).values(rows).execute()
    if (rows.length < BATCH) return offset + rows.length
  }
}

async function isEmpty(db: Kysely<Tables>, table: StateTable): Promise<boolean> {
  return (await db.selectFrom(table).select(sql.lit(1).as('row')).limit(1).execute()).length === 0
}

type Storage = { db: Kysely<Tables>; blobs: Blobs; shared: boolean }

/**
 * Moves the whole state: all rows in one transaction, then the blobs. The source is only read. Stop the server first: what it writes
 * during the move is lost. Throws when the target already holds state.
 */
export async function moveStore(from: Storage, to: Storage): Promise<Moved> {
  for (const table of tables) {
    if (!(await isEmpty(to.db, table))) {
      throw new Error(`the target storage already holds state (table ${table}): move into an empty one`)
    }
  }
  const moved = { ...Object.fromEntries(tables.map((table) => [table, 0])), blobs: 0 } as Moved
  await to.db.transaction().execute(async (tx) => {
    for (const table of tables) moved[table] = await copyTable(from.db, tx, table)
    // PostgreSQL's counter does not notice inserted numbers, so it is moved past them.
    if (to.shared)
      await sql`select setval(pg_get_serial_sequence('jobs', 'seq'), max(seq)) from jobs`.execute(tx)
  })
  for (const name of await from.blobs.list('')) {
    const parts = await from.blobs.read(name)
    if (!parts) continue // damaged, and reported: the content of blobs can be fetched again
    await to.blobs.write(name, parts)
    moved.blobs += 1
  }
  return moved
}
