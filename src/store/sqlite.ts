/**
 * The embedded database: SQLite (libsql) in one file, write-ahead log, synced at every commit, so that what was
 * answered survives a power cut. One connection a process; other processes (`tributary ledger`) may read beside it.
 */
import { accessSync, constants, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Kysely, SqliteAdapter, type SqliteDatabase, SqliteDialect } from 'kysely'
import Database from 'libsql'
import type { Tables } from './schema.js'

// Waiting for another process stops everything here: libsql is synchronous. Others hold the lock for milliseconds.
const BUSY_MS = 1_000

const NOTHING_TO_ROLL_BACK = {
  reader: false,
  run: () => ({ changes: 0, lastInsertRowid: 0 }),
  all: () => [],
  iterate: () => [][Symbol.iterator](),
}

/**
 * kysely opens transactions with a plain `begin`, which fails without waiting when another process wrote between the
 * first read and the first write: take the write lock at once. And a failed commit (disk full) has rolled back
 * already: a second rollback must not hide the first error.
 */
function adapted(db: Database.Database): SqliteDatabase {
  return {
    close() {
      try {
        db.exec('PRAGMA wal_checkpoint(TRUNCATE)') // libsql leaves it to us: one file is easier to back up than two
      } catch {
        // A full disk: the log keeps what was committed, and the next start reads it.
      }
      db.close()
    },
    prepare(sql) {
      if (sql === 'rollback' && !db.inTransaction) return NOTHING_TO_ROLL_BACK as never
      return db.prepare(sql === 'begin' ? 'begin immediate' : sql) as never
    },
  }
}

/** kysely does not count on it, but SQLite undoes tables too: a kill in the middle of a migration leaves nothing of it. */
class Adapter extends SqliteAdapter {
  override get supportsTransactionalDdl() {
    return true
  }
}

class Dialect extends SqliteDialect {
  override createAdapter() {
    return new Adapter()
  }
}

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
  return db
}

export type SqliteOptions = {
  /** Looks for damage first. Default: only what opening a file shows. */
  check: boolean
}

/**
 * Throws when the file is not a sound database: the ledger cannot be fetched again, so nothing is guessed. After an
 * orderly end the file is as it was checked when it was opened then, so only what follows a crash is read through.
 */
export function openSqlite(file: string, { check }: SqliteOptions): Kysely<Tables> {
  const db = connected(file)
  const found = (check ? db.prepare('PRAGMA quick_check(1)').get() : { quick_check: 'ok' }) as
    | { quick_check?: string }
    | undefined
  if (found?.quick_check !== 'ok') {
    db.close()
    throw new Error(`${file} is damaged (${found?.quick_check}); restore it from a backup (docs/storage.md)`)
  }
  return new Kysely<Tables>({ dialect: new Dialect({ database: adapted(db) }) })
}
