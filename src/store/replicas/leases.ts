/**
 * Rights of one process among several to do a piece of work for a while. A write under a lease happens only while its epoch is the
 * current one: a process that was paused or cut off changes nothing when it continues. PostgreSQL only: a process alone on its storage
 * has every right.
 */
import { sql } from 'kysely'
import { type Db, POSTGRES, type SqlDialect } from '../database/database.js'

/** Another process has a dead one's work after this and a beat together at the latest, ms. */
export const LEASE_LASTS_MS = 10_000
const FORGOTTEN_AFTER_MS = 24 * 60 * 60 * 1_000

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

/**
 * Rights of one process among several to do a piece of work. A lease has a name, an owner and an end on the database's clock, and an
 * epoch that is raised whenever it gets another owner, or the same one after it ended. Rejects while the database cannot serve.
 */
export function createLeases(db: Db, { now, given }: SqlDialect = POSTGRES): Leases {
  /**
   * By itself, or begun when the database's clock was ahead: none that somebody renews ends so late. A clock that is set back by less
   * than a lease lasts ends none before its time.
   */
  const isOver = (ms: number) =>
    sql<boolean>`(leases.until <= ${now()} or leases.until > ${now()} + ${2 * ms})`

  /** Epochs grow with time, so that a forgotten name continues above its last one. */
  const nextEpoch = () => sql`case when leases.epoch < ${now()} then ${now()} else leases.epoch + 1 end`

  async function take(owner: string, names: readonly string[], ms: number): Promise<Lease[]> {
    if (names.length === 0) return []
    // In one order: two that take the same names wait for each other and never both.
    const wanted = [...new Set(names)].sort().map((name) => ({ name }))
    const { rows } = await sql<Lease>`insert into leases (name, owner, epoch, until)
      select value->>'name', ${owner}, ${now()}, ${now()} + ${ms} from ${given(wanted)} where true
      on conflict (name) do update set owner = excluded.owner, until = excluded.until,
        epoch = case when leases.owner = excluded.owner and leases.until > ${now()} then leases.epoch
          else ${nextEpoch()} end
      where leases.owner = excluded.owner or ${isOver(ms)}
      returning name, epoch`.execute(db)
    return rows
  }

  async function release(leases: readonly Lease[]): Promise<void> {
    if (leases.length === 0) return
    const ended = [...leases].sort((a, b) => (a.name < b.name ? -1 : 1))
    // Put like those that are taken, because an update would lock them in the order in which they lie in the table.
    await sql`insert into leases (name, owner, epoch, until)
      select value->>'name', '', cast(value->>'epoch' as bigint) + 1, 0 from ${given(ended)} where true
      on conflict (name) do update set until = 0, epoch = ${nextEpoch()}
      where leases.epoch = excluded.epoch - 1`.execute(db)
  }

  async function held(prefix: string): Promise<string[]> {
    const rows = await db
      .selectFrom('leases')
      .select('name')
      .where('name', 'like', `${prefix}%`)
      .where(sql<boolean>`not ${isOver(LEASE_LASTS_MS)}`)
      .execute()
    return rows.map(({ name }) => name)
  }

  async function forgetOld(): Promise<void> {
    await db.deleteFrom('leases').where('until', '<', sql<number>`${now()} - ${FORGOTTEN_AFTER_MS}`).execute()
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
