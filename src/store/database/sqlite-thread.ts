/**
 * The thread in which the embedded database works: libsql is synchronous, and a commit waits for the disk. It is sent one
 * statement a message and answers each with one message, in their order.
 */
import { accessSync, constants, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parentPort, workerData } from 'node:worker_threads'
import Database from 'libsql'
import { LRUCache } from 'lru-cache'

export type Opening = {
  file: string
  /** Looks for damage first. */
  check: boolean
}

export type Statement = {
  /** A transaction begins with it. */
  begins: boolean
  sql: string
  parameters: readonly unknown[]
}

export type ThreadReply =
  | { kind: 'done'; rows: Record<string, unknown>[]; changes?: number }
  | { kind: 'failed'; message: string; code?: string }
  | { kind: 'damaged'; found: string }

// Another process that reads beside this one holds the lock for milliseconds.
const BUSY_MS = 1_000
const CACHE_KIB = 64 * 1_024 // the inner pages of the indexes of a million finished calls
const CHECKPOINT_PAGES = 8_192 // 32 MB of log: pages that change often are written to the database once in a while
const PREPARED = 256
const NEWEST_ROWS = 2_000 // of each table

/** A folder that nobody can write to, and in it a database that was closed: all it holds is in its one file. */
function isAtRest(file: string): boolean {
  try {
    accessSync(dirname(file), constants.W_OK)
    return false
  } catch {
    return (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) === 0
  }
}

/** A database at rest is opened as such: SQLite would want to write its log beside it before it reads. */
function connected(file: string): Database.Database {
  const name = isAtRest(file) ? `${pathToFileURL(file).href}?immutable=1` : file
  const db = new Database(name, { timeout: BUSY_MS })
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON')
  db.exec(`PRAGMA cache_size = -${CACHE_KIB}; PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
  return db
}

type Row = Record<string, unknown>

/** Every page on the way to the rows is read, and each row to its end. Throws what SQLite says of one that makes no sense. */
function readThrough(db: Database.Database, sql: string): void {
  for (const _ of db.prepare(sql).iterate()) {
    // Reading is all that there is to do.
  }
}

/**
 * What is wrong after a process that did not end in order; undefined when nothing was found. SQLite's own log undoes what a
 * crash left half written; a disk that lies can still have lost a page, and what it loses are pages that were written last.
 * So what was written last is read, and all that is open, which takes as long however long the ledger is. A backup reads the rest.
 */
function whatIsDamaged(db: Database.Database): string | undefined {
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

function failed(error: unknown): ThreadReply {
  const { message, code } = error as { message: string; code?: string }
  return { kind: 'failed', message, ...(code !== undefined && { code }) }
}

function executor(db: Database.Database) {
  const prepared = new LRUCache<string, Database.Statement>({ max: PREPARED })

  function statement(sql: string): Database.Statement {
    const known = prepared.get(sql)
    if (known) return known
    const fresh = db.prepare(sql)
    prepared.set(sql, fresh)
    return fresh
  }

  return function execute({ begins, sql, parameters }: Statement): ThreadReply {
    // A failed commit (disk full) has rolled back already: a second rollback must not hide the first error.
    if (sql === 'rollback' && !db.inTransaction) return { kind: 'done', rows: [] }
    try {
      // The write lock at once: a plain `begin` fails without waiting when another process wrote before the first write.
      if (begins) db.exec('begin immediate')
      const one = statement(sql)
      if (one.reader) return { kind: 'done', rows: one.all(parameters) as Record<string, unknown>[] }
      return { kind: 'done', rows: [], changes: one.run(parameters).changes }
    } catch (error) {
      prepared.delete(sql) // what it was in the middle of is nobody's
      return failed(error)
    }
  }
}

function close(db: Database.Database): void {
  try {
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)') // libsql leaves it to us: one file is easier to back up than two
  } catch {
    // A full disk: the log keeps what was committed, and the next start reads it.
  }
  db.close()
}

function open({ file, check }: Opening): void {
  const answer = (reply: ThreadReply) => parentPort?.postMessage(reply)
  try {
    const db = connected(file)
    const found = check ? whatIsDamaged(db) : undefined
    if (found !== undefined) {
      db.close()
      answer({ kind: 'damaged', found })
      return
    }
    const execute = executor(db)
    parentPort?.on('message', (statement: Statement | 'close') => {
      if (statement === 'close') {
        close(db)
        parentPort?.close()
      } else answer(execute(statement))
    })
    answer({ kind: 'done', rows: [] })
  } catch (error) {
    answer(failed(error))
  }
}

open(workerData as Opening)
