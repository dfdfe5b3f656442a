/**
 * Looking for damage after a process that did not end in order. SQLite's own log undoes what a crash left half written; a
 * disk that lies can still have lost a page, and what it loses are pages that were written last. So what was written last is
 * read, and all that is open, which takes as long however long the ledger is. A backup reads the rest.
 */
import type Database from 'libsql'

const NEWEST_ROWS = 2_000 // of each table

type Row = Record<string, unknown>

/** Every page on the way to the rows is read, and each row to its end. Throws what SQLite says of one that makes no sense. */
function readThrough(db: Database.Database, sql: string): void {
  for (const _ of db.prepare(sql).iterate()) {
    // Reading is all that there is to do.
  }
}

/** What is wrong; undefined when nothing was found. */
export function whatIsDamaged(db: Database.Database): string | undefined {
  try {
    const tables = db.prepare("select name from sqlite_schema where type = 'table'").all() as Row[]
    for (const { name } of tables) {
      readThrough(db, `select * from "${name}" order by rowid desc limit ${NEWEST_ROWS}`)
    }
    const indexes = db
      .prepare("select name, tbl_name from sqlite_schema where type = 'index' and sql is not null")
      .all() as Row[]
    for (const { name, tbl_name } of indexes) {
      if (name === 'jobs_due') readThrough(db, `select * from "${tbl_name}" where due is not null`)
    }
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}
