/**
 * The thread of the embedded database: libsql is synchronous, and a commit waits for the disk. It receives one
 * statement per message and answers each with one message, in order.
 */
import { accessSync, constants, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parentPort, workerData } from 'node:worker_threads'
import Database from 'libsql'
import { createRecent } from '../../memory/recent.js'
import { whatIsDamaged } from './sqlite-check.js'
import { DamagedText, isQuery, prepareQuery, type SqliteRows } from './sqlite-rows.js'

export type Opening = {
  file: string
  /** Checks for damage first. */
  check: boolean
}

export type Statement = {
  /** The statement begins a transaction. */
  begins: boolean
  sql: string
  parameters: readonly unknown[]
}

export type ThreadReply =
  | { kind: 'done'; rows?: SqliteRows; changes?: number }
  | { kind: 'failed'; message: string; code?: string }
  | { kind: 'damaged'; found: string }

// A process that reads at the same time holds the lock for milliseconds.
const BUSY_MS = 1_000
const CACHE_KIB = 64 * 1_024 // holds the inner index pages of a million finished calls
const CHECKPOINT_PAGES = 8_192 // 32 MB of log: pages that change often are then written to the database less often
const PREPARED = 256

/** A folder that nobody can write to, with a closed database: all its content is in its one file. */
function isAtRest(file: string): boolean {
  try {
    accessSync(dirname(file), constants.W_OK)
    return false
  } catch {
    return (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) === 0
  }
}

/** Opens a closed database as immutable: otherwise SQLite wants to write a log file before it reads. */
function connected(file: string): Database.Database {
  const name = isAtRest(file) ? `${pathToFileURL(file).href}?immutable=1` : file
  const db = new Database(name, { timeout: BUSY_MS })
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON')
  db.exec(`PRAGMA cache_size = -${CACHE_KIB}; PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
  return db
}

function failed(error: unknown): ThreadReply {
  if (error instanceof DamagedText) return { kind: 'damaged', found: error.message }
  const { message, code } = error as { message: string; code?: string }
  return { kind: 'failed', message, ...(code !== undefined && { code }) }
}

/** Runs a statement with its parameters and returns its result. */
type Prepared = (parameters: readonly unknown[]) => Extract<ThreadReply, { kind: 'done' }>

function prepare(db: Database.Database, sql: string): Prepared {
  if (isQuery(sql)) {
    const query = prepareQuery(db, sql)
    return (parameters) => ({ kind: 'done', rows: query.all(parameters) })
  }
  const statement = db.prepare(sql)
  if (!statement.reader) return (parameters) => ({ kind: 'done', changes: statement.run(parameters).changes })
  const columns = statement.columns().map(({ name }) => name)
  const returning = statement.raw()
  return (parameters) => ({
    kind: 'done',
    rows: { columns, json: JSON.stringify(returning.all(parameters)) },
  })
}

function executor(db: Database.Database) {
  const prepared = createRecent<Prepared>(PREPARED)

  return function execute({ begins, sql, parameters }: Statement): ThreadReply {
    // A failed commit (disk full) has rolled back already: a second rollback must not hide the first error.
    if (sql === 'rollback' && !db.inTransaction) return { kind: 'done' }
    try {
      // Takes the write lock at once: a plain `begin` fails without waiting when another process writes before our
      // first write.
      if (begins) db.exec('begin immediate')
      const known = prepared.get(sql) ?? prepare(db, sql)
      prepared.set(sql, known)
      return known(parameters)
    } catch (error) {
      prepared.delete(sql) // a statement that failed half-way is not used again
      return failed(error)
    }
  }
}

function close(db: Database.Database): void {
  try {
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)') // libsql does not do it: one file is easier to back up than two
  } catch {
    // On a full disk the log keeps what was committed, and the next start reads it.
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
    answer({ kind: 'done' })
  } catch (error) {
    answer(failed(error))
  }
}

open(workerData as Opening)
