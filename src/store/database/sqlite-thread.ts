/**
 * The thread of the embedded database: libsql is synchronous, and a commit waits for the disk. It receives one statement per message
 * and answers each with one message, in order. After a process that did not end in order it first looks for damage.
 */
import { isUtf8 } from 'node:buffer'
import { accessSync, constants, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parentPort, workerData } from 'node:worker_threads'
import Database from 'libsql'

// A process that reads at the same time holds the lock for milliseconds.
const BUSY_MS = 1_000
const CACHE_KIB = 64 * 1_024 // holds the inner index pages of a million finished calls
const CHECKPOINT_PAGES = 8_192 // 32 MB of log: pages that change often are then written to the database less often
const PREPARED = 256
const NEWEST_ROWS = 2_000 // per table
const SMALL_TABLE = 5_000 // rows: checked whole in about 20 ms
/** SQLite's codes for a file that makes no sense. */
const DAMAGED = /^SQLITE_(CORRUPT|NOTADB)/

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

/** Rows of a statement, as the JSON of an array of their values in the order of `columns`. */
export type SqliteRows = { columns: readonly string[]; json: string }

export type ThreadReply =
  | { kind: 'done'; rows?: SqliteRows; changes?: number }
  | { kind: 'failed'; message: string; code?: string }
  | { kind: 'damaged'; found: string }

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`

/** What libsql returns for a row of one column. */
type Row = readonly [ArrayBuffer]

class DamagedText extends Error {
  override readonly name = 'DamagedText'
}

/** Checked before it is decoded: libsql ends the whole process on a text that is not UTF-8 (a disk that flipped a bit). */
function decoded([bytes]: Row): string {
  const text = Buffer.from(bytes)
  if (!isUtf8(text)) throw new DamagedText('a text in it is not UTF-8')
  return text.toString()
}

/** What a writing statement returns, at its end: columns of its table, under their names. */
const RETURNING = /\breturning\b(?!.*\breturning\b).*/is
/** A statement that takes no write lock. */
const READING = /^\s*(select|pragma|explain|commit|rollback)\b/i
/** A statement about the database itself. */
const OF_SQLITE = /^\s*(pragma|explain)\b/i

/** The same statement, which returns each row as one JSON text, as bytes. */
function withJsonRows(sql: string, columns: readonly string[]): string {
  const row = `cast(json_array(${columns.map(quoted).join(', ')}) as blob)`
  return RETURNING.test(sql)
    ? sql.replace(RETURNING, () => `returning ${row}`)
    : `select ${row} from (${sql})`
}

const columnsOf = (statement: Database.Statement) => statement.columns().map(({ name }) => name)

/** A prepared statement that returns rows of these columns. Reading throws `DamagedText` for a row that is not text. */
function prepareRows(db: Database.Database, sql: string, columns = columnsOf(db.prepare(sql))) {
  const statement = db.prepare(withJsonRows(sql, columns)).raw()
  return {
    all(parameters: readonly unknown[]): SqliteRows {
      const rows = statement.all(parameters) as Row[]
      return { columns, json: `[${rows.map(decoded).join(',')}]` }
    },
    /** Every page on the way to the rows is read, and each row to its end. */
    readThrough(): void {
      for (const row of statement.iterate()) decoded(row as unknown as Row)
    },
  }
}

type Index = { name: string; table: string; columns: string[]; condition: string }

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

/**
 * SQLite's log undoes what a crash left half written, but a faulty disk may have lost pages, most likely those written last. So the
 * newest rows and all open jobs are read, with their index entries, which takes the same time for a ledger of any length. A small
 * table is checked whole. A backup reads the rest.
 */
function check(db: Database.Database): string | undefined {
  const tables = rowsOf<{ name: string }>(
    db,
    "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'",
  )
  for (const { name } of tables) {
    const [last] = rowsOf<{ rowid: number | null }>(db, `select max(rowid) as rowid from ${quoted(name)}`)
    prepareRows(db, `select * from ${quoted(name)} order by rowid desc limit ${NEWEST_ROWS}`).readThrough()
    if ((last?.rowid ?? 0) <= SMALL_TABLE) {
      const [found] = rowsOf<{ integrity_check: string }>(db, `pragma integrity_check(${quoted(name)})`)
      if (found && found.integrity_check !== 'ok') return found.integrity_check
      continue
    }
    for (const index of indexesOf(db, name)) {
      const lost = missing(db, index)
      if (lost > 0) return `${lost} of the newest rows of ${name} are missing in its index ${index.name}`
    }
    if (name === 'jobs') prepareRows(db, 'select * from jobs where due is not null').readThrough()
  }
  return undefined
}

/** What is damaged; undefined when nothing was found. */
function whatIsDamaged(db: Database.Database): string | undefined {
  try {
    return check(db)
  } catch (error) {
    return (error as Error).message
  }
}

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
  const { message, code } = error as { message: string; code?: string }
  if (error instanceof DamagedText || DAMAGED.test(code ?? '')) return { kind: 'damaged', found: message }
  return { kind: 'failed', message, ...(code !== undefined && { code }) }
}

/** Runs a statement with its parameters and returns its result. */
type Prepared = (parameters: readonly unknown[]) => Extract<ThreadReply, { kind: 'done' }>

function prepare(db: Database.Database, sql: string): Prepared {
  const statement = db.prepare(sql)
  if (!statement.reader) return (parameters) => ({ kind: 'done', changes: statement.run(parameters).changes })
  const columns = columnsOf(statement)
  if (OF_SQLITE.test(sql)) {
    const raw = statement.raw()
    return (parameters) => ({
      kind: 'done',
      rows: { columns, json: JSON.stringify(raw.all(parameters)) },
    })
  }
  const rows = prepareRows(db, sql, columns)
  return (parameters) => ({ kind: 'done', rows: rows.all(parameters) })
}

function executor(db: Database.Database) {
  // In the order of their last use. A map, because each thread would load the package of a cache for it.
  const prepared = new Map<string, Prepared>()

  return function execute({ begins, sql, parameters }: Statement): ThreadReply {
    const isInTransaction = () => db.open && db.inTransaction // the package ends the process when a closed one is asked
    // A failed commit (disk full) has rolled back already: a second rollback must not hide the first error.
    if (sql === 'rollback' && !isInTransaction()) return { kind: 'done' }
    const isAlone = !begins && !isInTransaction() && !READING.test(sql)
    try {
      // Takes the write lock at once: a plain `begin` fails without waiting when another process writes before our
      // first write. So does one that writes alone: SQLite leaves a statement that could not get the lock open, and commits
      // nothing of what follows on this connection until it is reset, which the package does not do.
      if (begins || isAlone) db.exec('begin immediate')
      const known = prepared.get(sql) ?? prepare(db, sql)
      prepared.delete(sql)
      prepared.set(sql, known)
      if (prepared.size > PREPARED) prepared.delete(prepared.keys().next().value as string)
      const done = known(parameters)
      if (isAlone) db.exec('commit')
      return done
    } catch (error) {
      if (isAlone && isInTransaction()) db.exec('rollback')
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
