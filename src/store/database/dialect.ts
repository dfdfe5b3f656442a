/**
 * What the two databases say differently. Everything else is one text for both, so that rows that are written together are
 * one parameter of one statement: a statement with a parameter a value is built, sent and prepared anew for each number of
 * rows, which cost more than all the rest of writing them.
 */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from './schema.js'

/** What both databases keep of a text: PostgreSQL takes no U+0000, and neither takes half of a surrogate pair. */
const REPLACEMENT = '\ufffd'

/** The same text, with U+FFFD for what no database takes: the same for what is written and for what is looked for. */
function storable(text: string): string {
  const whole = text.isWellFormed() ? text : text.toWellFormed()
  return whole.includes('\0') ? whole.replaceAll('\0', REPLACEMENT) : whole
}

/** A parameter of a statement, ready to be bound. */
export function bound(value: unknown): unknown {
  return typeof value === 'string' ? storable(value) : value
}

/** JSON whose texts the databases can take out of it. */
export function storableJson(value: unknown): string {
  const json = JSON.stringify(value)
  // JSON escapes what is not storable, and little else.
  return json.includes('\\u') ? JSON.stringify(value, (_name, member: unknown) => bound(member)) : json
}

export type SqlDialect = {
  /** How the database tells the time, ms since the epoch. */
  now(): RawBuilder<number>
  /** Lets one transaction at a time decide about each of the targets. */
  inTurn?(db: Db, targets: readonly string[]): Promise<unknown>
  /** Added to the condition of a statement that writes to many jobs: it takes them in one order, so that none blocks another. */
  inOrder(ids: readonly string[]): RawBuilder<unknown>
  /** A table `given` whose column `value` is the JSON of a row each, in their order; a member is `value->>'name'`. */
  given(rows: readonly object[]): RawBuilder<unknown>
}

export const POSTGRES: SqlDialect = {
  // The server's clock: processes whose own clocks differ agree on who holds what.
  now: () => sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`,
  // In one order everywhere: transactions that decide about the same targets wait for each other instead of blocking each other.
  inTurn: (db, targets) =>
    sql`select pg_advisory_xact_lock(place) from (select distinct hashtextextended(target, 0) as place
      from unnest(${targets}::text[]) as target order by place) as places`.execute(db),
  inOrder: (ids) =>
    sql`and jobs.id in (select id from jobs where id = any(${ids}::text[]) order by id for update)`,
  given: (rows) => sql`json_array_elements(${storableJson(rows)}::json) as given(value)`,
}

/** One process, so its clock is the database's; and its writes come one after the other. */
export const embedded = (now: () => number): SqlDialect => ({
  now: () => sql<number>`${now()}`,
  inOrder: () => sql``,
  given: (rows) => sql`json_each(${storableJson(rows)}) as given`,
})
