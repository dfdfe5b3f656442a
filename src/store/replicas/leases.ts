/**
 * Rights of one process among several to do a piece of work: each has a name, an owner and an end on the database's clock, and
 * an epoch that is raised whenever it gets another owner, or the same one after it ended. A write under it happens only
 * while its epoch is the current one: a process that was paused or cut off changes nothing when it continues. PostgreSQL
 * only: a process alone on its storage has every right.
 */
import { sql } from 'kysely'
import type { SqlDialect } from '../database/sql-dialect.js'
import type { Db } from '../database/table-types.js'

/** A lease that was taken; only the database knows whether it still holds. */
export type Lease = { name: string; epoch: number }

export type Leases = {
  /** Takes those that are free and renews those of the owner, for so long; returns those that it has now. */
  take(owner: string, names: readonly string[], ms: number): Promise<Lease[]>
  /** Releases them. Work that still goes on under them writes nothing more. */
  release(leases: readonly Lease[]): Promise<void>
  /** Names beginning with `prefix` that some process holds. */
  held(prefix: string): Promise<string[]>
  /** Forgets those that ended long ago. */
  forgetOld(): Promise<void>
}

const FORGOTTEN_AFTER_MS = 24 * 60 * 60 * 1_000

/** The epochs after a given one. They grow with time, so that a forgotten name continues above its last epoch. */
function next(dialect: SqlDialect) {
  return sql`case when leases.epoch < ${dialect.now()} then ${dialect.now()} else leases.epoch + 1 end`
}

/** Rejects while the database cannot serve. */
export function createLeases(db: Db, dialect: SqlDialect): Leases {
  async function take(owner: string, names: readonly string[], ms: number): Promise<Lease[]> {
    if (names.length === 0) return []
    // In one order: two that take the same names wait for each other and never both.
    const given = dialect.given([...new Set(names)].sort().map((name) => ({ name })))
    const { rows } = await sql<Lease>`insert into leases (name, owner, epoch, until)
      select value->>'name', ${owner}, ${dialect.now()}, ${dialect.now()} + ${ms} from ${given} where true
      on conflict (name) do update set owner = excluded.owner, until = excluded.until,
        epoch = case when leases.owner = excluded.owner and leases.until > ${dialect.now()} then leases.epoch
          else ${next(dialect)} end
      where leases.owner = excluded.owner or leases.until <= ${dialect.now()}
      returning name, epoch`.execute(db)
    return rows
  }

  async function release(leases: readonly Lease[]): Promise<void> {
    if (leases.length === 0) return
    const given = dialect.given([...leases].sort((a, b) => (a.name < b.name ? -1 : 1)))
    await sql`update leases set until = 0, epoch = ${next(dialect)} from ${given}
      where leases.name = value->>'name' and leases.epoch = cast(value->>'epoch' as bigint)`.execute(db)
  }

  async function held(prefix: string): Promise<string[]> {
    const rows = await db
      .selectFrom('leases')
      .select('name')
      .where('name', 'like', `${prefix}%`)
      .where('until', '>', dialect.now())
      .execute()
    return rows.map(({ name }) => name)
  }

  async function forgetOld(): Promise<void> {
    await db
      .deleteFrom('leases')
      .where('until', '<', sql<number>`${dialect.now()} - ${FORGOTTEN_AFTER_MS}`)
      .execute()
  }

  return { take, release, held, forgetOld }
}

/**
 * Whether a lease still holds, to be asked first in a transaction that writes under it: until the transaction ends, no other
 * process can take the name.
 */
export async function leaseStands(tx: Db, { name, epoch }: Lease): Promise<boolean> {
  const rows = await tx
    .selectFrom('leases')
    .select('epoch')
    .where('name', '=', name)
    .where('epoch', '=', epoch)
    .forShare()
    .execute()
  return rows.length > 0
}
