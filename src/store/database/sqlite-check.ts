/**
 * Looks for damage in the embedded database after a process that did not end in order. SQLite's log undoes what a crash
 * left half written, but a faulty disk may have lost pages, most likely those written last. So the newest rows and all
 * open ones are read, with their index entries, which takes the same time for a ledger of any length. A small table is
 * checked whole. A backup reads the rest.
 */
import type Database from 'libsql'
import { prepareQuery } from './sqlite-rows.js'

const NEWEST_ROWS = 2_000 // per table
const SMALL_TABLE = 5_000 // rows: checked whole in about 20 ms

type Index = { name: string; table: string; columns: string[]; condition: string }

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`

function rowsOf<T>(db: Database.Database, sql: string, ...parameters: unknown[]): T[] {
  return db.prepare(sql).all(...parameters) as T[]
}

function indexesOf(db: Database.Database, table: string): Index[] {
  const named = rowsOf<{ name: string; sql: string | null }>(
    db,
    `select list.name, schema.sql from pragma_index_list(?) as list join sqlite_schema as schema on schema.name = list.name`,
    table,
  )
  return named.map(({ name, sql }) => ({
    ...{ name, table },
    columns: rowsOf<{ name: string }>(db, 'select name from pragma_index_info(?)', name).map(
      (column) => column.name,
    ),
    condition: /\bwhere\b(.*)$/is.exec(sql ?? '')?.[1] ?? 'true',
  }))
}

/** How many of the newest rows are missing from the index. */
function missing(db: Database.Database, { name, table, columns, condition }: Index): number {
  const same = columns.map((column) => `other.${quoted(column)} is newest.${quoted(column)}`)
  const found = `select 1 from ${quoted(table)} as other indexed by ${quoted(name)}
    where ${same.join(' and ')} and other.rowid = newest.place and (${condition})`
  const newest = `select rowid as place, * from ${quoted(table)} order by rowid desc limit ${NEWEST_ROWS}`
  const [row] = rowsOf<{ count: number }>(
    db,
    `select count(*) as count from (${newest}) as newest where (${condition}) and not exists (${found})`,
  )
  return row?.count ?? 0
}

function check(db: Database.Database): string | undefined {
  const tables = rowsOf<{ name: string }>(
    db,
    "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'",
  )
  for (const { name } of tables) {
    const [last] = rowsOf<{ rowid: number | null }>(db, `select max(rowid) as rowid from ${quoted(name)}`)
    prepareQuery(db, `select * from ${quoted(name)} order by rowid desc limit ${NEWEST_ROWS}`).readThrough()
    if ((last?.rowid ?? 0) <= SMALL_TABLE) {
      const [found] = rowsOf<{ integrity_check: string }>(db, `pragma integrity_check(${quoted(name)})`)
      if (found && found.integrity_check !== 'ok') return found.integrity_check
      continue
    }
    for (const index of indexesOf(db, name)) {
      const lost = missing(db, index)
      if (lost > 0) return `${lost} of the newest rows of ${name} are missing in its index ${index.name}`
    }
    if (name === 'jobs') prepareQuery(db, 'select * from jobs where due is not null').readThrough()
  }
  return undefined
}

/** What is damaged; undefined when nothing was found. */
export function whatIsDamaged(db: Database.Database): string | undefined {
  try {
    return check(db)
  } catch (error) {
    return (error as Error).message
  }
}
