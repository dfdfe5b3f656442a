/**
 * The differences between the two databases; everything else is one SQL text for both. Rows that are written together
 * are one JSON parameter of one statement. With one parameter per value, a statement would be built, sent and prepared
 * again for each number of rows, which cost more than the rest of the write.
 */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from './table-types.js'

/** Characters that a database cannot store: PostgreSQL rejects U+0000, and both reject half a surrogate pair. */
const REPLACEMENT = '\ufffd'

/** The text with U+FFFD in place of those characters, both when it is written and when it is searched for. */
function storable(text: string): string {
  const whole = text.isWellFormed() ? text : text.toWellFormed()
  return whole.includes('\0') ? whole.replaceAll('\0', REPLACEMENT) : whole
}

/** A parameter of a statement, ready to be bound. */
export function bound(value: unknown): unknown {
  return typeof value === 'string' ? storable(value) : value
}

/** JSON whose texts the databases can extract. */
export function storableJson(value: unknown): string {
  const json = JSON.stringify(value)
  // JSON escapes the characters that cannot be stored, and few others.
  return json.includes('\\u') ? JSON.stringify(value, (_name, member: unknown) => bound(member)) : json
}

export type SqlDialect = {
  /** The database's current time, ms since the epoch. */
  now(): RawBuilder<number>
  /** Locks the targets, so that one transaction at a time decides about each. */
  inTurn?(db: Db, targets: readonly string[]): Promise<unknown>
  /**
   * Added to the condition of a statement that updates many jobs: it locks them in one order, so that two such
   * statements cannot deadlock.
   */
  inOrder(ids: readonly string[]): RawBuilder<unknown>
  /** A table `given` with one row per JSON object in column `value`, in their order; a member is `value->>'name'`. */
  given(rows: readonly object[]): RawBuilder<unknown>
}

export const POSTGRES: SqlDialect = {
  // The server's clock: processes with different clocks must agree on who holds a lease.
  now: () => sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`,
  // Locks in one order everywhere, so that transactions about the same targets wait for each other and do not deadlock.
  inTurn: (db, targets) =>
    sql`select pg_advisory_xact_lock(place) from (select distinct hashtextextended(target, 0) as place
      from unnest(${targets}::text[]) as target order by place) as places`.execute(db),
  inOrder: (ids) =>
    sql`and jobs.id in (select id from jobs where id = any(${ids}::text[]) order by id for update)`,
  given: (rows) => sql`json_array_elements(${storableJson(rows)}::json) as given(value)`,
}

/** One process, so its clock is the database's; and its writes run one after the other. */
export const embedded = (now: () => number): SqlDialect => ({
  now: () => sql<number>`${now()}`,
  inOrder: () => sql``,
  given: (rows) => sql`json_each(${storableJson(rows)}) as given`,
})
