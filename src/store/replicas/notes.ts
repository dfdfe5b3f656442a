/**
 * Notes between processes that share a storage: the latest value under each name, numbered in the order in which the values
 * became visible, so that a process that has read up to a number misses nothing after it. PostgreSQL only.
 */
import { sql } from 'kysely'
import type { SqlDialect } from '../database/sql-dialect.js'
import type { Db } from '../database/table-types.js'
import { type Lease, leaseStands } from './leases.js'

type Note = { name: string; seq: number; value: unknown; ageMs: number }

export type Notes = {
  /** Replaces the value under the name; with a lease only while that holds: false when it does not. */
  tell(name: string, value: unknown, lease?: Lease): Promise<boolean>
  /** The notes after that number, in order. */
  since(seq: number): Promise<Note[]>
  /** Deletes notes that are so old that every live process has read them. */
  forgetOld(): Promise<void>
}

/** PostgreSQL tells listeners on it of every note. */
export const CHANNEL = 'tributary_notes'

const TURN = 7_309_453 // any number that no other advisory lock of ours has
const FORGOTTEN_AFTER_MS = 7 * 24 * 60 * 60 * 1_000

/** Part of a transaction, its last statement: until it ends, no other process writes a note. */
async function told(tx: Db, dialect: SqlDialect, name: string, value: unknown): Promise<void> {
  // One after the other to their commits: else a lower number could become visible after a higher one was read.
  await sql`select pg_advisory_xact_lock(${TURN})`.execute(tx)
  await sql`insert into notes (name, seq, value, told_at)
    values (${name}, nextval(pg_get_serial_sequence('notes', 'seq')), ${JSON.stringify(value)}, ${dialect.now()})
    on conflict (name) do update set seq = excluded.seq, value = excluded.value, told_at = excluded.told_at`.execute(
    tx,
  )
  await sql`select pg_notify(${CHANNEL}, '')`.execute(tx)
}

type Transact = <T>(work: (tx: Db) => Promise<T>) => Promise<T>

export function createNotes(db: Db, transact: Transact, dialect: SqlDialect): Notes {
  return {
    tell: (name, value, lease) =>
      transact(async (tx) => {
        if (lease && !(await leaseStands(tx, lease))) return false
        await told(tx, dialect, name, value)
        return true
      }),
    async since(seq) {
      const rows = await db
        .selectFrom('notes')
        .select(['name', 'seq', 'value', sql<number>`${dialect.now()} - told_at`.as('ageMs')])
        .where('seq', '>', seq)
        .orderBy('seq')
        .execute()
      return rows.map(({ value, ...note }) => ({ ...note, value: JSON.parse(value) as unknown }))
    },
    async forgetOld() {
      await db
        .deleteFrom('notes')
        .where('told_at', '<', sql<number>`${dialect.now()} - ${FORGOTTEN_AFTER_MS}`)
        .execute()
    },
  }
}
