/**
 * The embedded database: SQLite (libsql) in one file, with a write-ahead log that is synced at every commit, so that
 * what was answered survives a power cut. It has its own thread, so that serving never waits for the disk, and one
 * connection per process, on which statements and transactions take turns. Other processes (`tributary ledger`) may
 * read at the same time; only the one that holds the folder's lock writes.
 */
import { once } from 'node:events'
import type { Stats } from 'node:fs'
import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  type QueryResult,
  SqliteAdapter,
  SqliteDialect,
} from 'kysely'
import Database from 'libsql'
import { startThread } from '../../process/threads.js'
import { bound, type Tables } from './database.js'
import type { Opening, SqliteRows, Statement, ThreadReply } from './sqlite-thread.js'
import { StorageUnavailable, StorageUnusable } from './storage-work.js'

const THREAD = new URL('./sqlite-thread.js', import.meta.url)
const WAIT_MS = 1_000 // time for the previous process to end

/** The absolute folder of a `storage.url`; undefined for one that is no folder, as a shared database. */
export function storageFolder(url: string): string | undefined {
  if (!url.startsWith('file:')) return undefined
  return resolve(url.slice('file:'.length).replace(/^\/\/(?=\/)/, '')) // file:///var/lib is /var/lib too
}

/** The file in it that holds the tables. */
export const databaseFile = (folder: string) => join(folder, 'tributary.db')

const lockFile = (folder: string) => join(folder, 'lock')

/** Ends of the names of a database's files: of itself, its rollback journal, its write-ahead log and the index of that. */
const ENDS = ['', '-journal', '-wal', '-shm']

/** Undefined when nothing is there. */
async function statsOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/**
 * Throws when something that is not a file stands in the place of a file of the database or of its lock: SQLite would wait for ever
 * for a pipe, and commit to a device from which nothing can be read again.
 */
export async function requireFiles(folder: string): Promise<void> {
  const paths = [databaseFile(folder), lockFile(folder)].flatMap((file) => ENDS.map((end) => `${file}${end}`))
  for (const path of paths) {
    if ((await statsOf(path))?.isFile() === false) {
      throw new StorageUnusable(
        `${path} is not a file, and something else cannot hold what is stored; move it away, or name another storage (docs/storage.md)`,
      )
    }
  }
}

/**
 * Locks the folder for this process; returns a function that unlocks it. Throws an Error when another process has the
 * lock. The lock belongs to an open database file, so the system releases it however the process ends, and nobody has
 * to remove it by hand.
 */
export async function lockFolder(folder: string): Promise<() => void> {
  const file = lockFile(folder)
  const lock = new Database(file, { timeout: WAIT_MS })
  try {
    lock.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    lock.close()
    const { code = '' } = error as { code?: string }
    if (code.startsWith('SQLITE_BUSY')) {
      throw new StorageUnusable(
        `${folder} is in use: another process works on it, and a folder is for one (docs/storage.md)`,
      )
    }
    if (code !== 'SQLITE_NOTADB') throw error
    throw new StorageUnusable(`${file} is not a lock: something else wrote it; remove it, it holds nothing`)
  }
  let isHeld = true
  return () => {
    if (isHeld) lock.close() // closing ends its transaction
    isHeld = false
  }
}

const markOf = (file: string) => `${file}.closed`

/** The file's size and modification time; empty when there is no file. */
async function stateOf(file: string): Promise<string> {
  const stats = await statsOf(file).catch(() => undefined)
  return stats ? `${stats.size} ${stats.mtimeMs}` : ''
}

/**
 * Marks the file as closed in order; call it after the last write. The file is then as sound as it was when it was opened, and the
 * next start need not check it. If the disk cannot store the mark, the next start checks the file.
 */
export async function markClosed(file: string): Promise<void> {
  await writeFile(markOf(file), await stateOf(file)).catch(() => {})
}

/** Whether the file is unchanged since it was closed; removes the mark. */
export async function wasClosed(file: string): Promise<boolean> {
  const mark = markOf(file)
  // Who reads a pipe waits for a writer, and a device may have no end.
  const isFile = (await statsOf(mark).catch(() => undefined))?.isFile()
  const marked = isFile ? await readFile(mark, 'utf8').catch(() => '') : ''
  await rm(mark, { force: true }).catch(() => {})
  return marked === (await stateOf(file))
}

type SqliteOptions = {
  /** Checks for damage first. Default: no more than opening the file shows. */
  check: boolean
  /** Receives what an operator should know. */
  onProblem: (problem: string) => void
}

type Done = Extract<ThreadReply, { kind: 'done' }>
type Waiting = { resolve(reply: Done): void; reject(error: Error): void }

/** The thread, with a function to send it statements. Rejects when the database cannot be opened. */
async function startDatabase(opening: Opening) {
  const thread = startThread(THREAD, { workerData: opening })
  const waiting: Waiting[] = [] // for replies, in the order of the statements
  let gone: Error | undefined
  let isClosing = false

  function end(reason: Error): void {
    gone ??= reason
    for (const { reject } of waiting.splice(0)) reject(gone)
  }

  const replied = () =>
    new Promise<Done>((resolve, reject) => {
      if (gone) return reject(gone)
      if (waiting.length === 0) thread.ref() // keeps the process alive until the statement is done
      waiting.push({ resolve, reject })
    })

  thread.on('message', (reply: ThreadReply) => {
    const first = waiting.shift()
    if (waiting.length === 0) thread.unref()
    if (reply.kind === 'done') return first?.resolve(reply)
    if (reply.kind === 'damaged') {
      const advice = 'restore it from a backup (docs/storage.md)'
      return first?.reject(new StorageUnusable(`${opening.file} is damaged (${reply.found}); ${advice}`))
    }
    const { message, code } = reply
    first?.reject(Object.assign(new Error(message), code !== undefined && { code }))
  })
  thread.on('error', ({ message }) =>
    end(new StorageUnavailable(`the thread of the database ended: ${message}`)),
  )
  thread.on('exit', () => {
    end(
      isClosing
        ? new Error('the database was closed')
        : new StorageUnavailable('the thread of the database ended'),
    )
  })

  async function close(): Promise<void> {
    if (gone) return
    isClosing = true
    thread.ref()
    thread.postMessage('close')
    await once(thread, 'exit')
  }

  try {
    await replied()
  } catch (error) {
    await thread.terminate()
    throw error
  }
  return {
    async execute(statement: Statement): Promise<Done> {
      thread.postMessage(statement) // first: a statement that cannot be posted gets no reply
      return await replied()
    },
    isGone: () => gone !== undefined,
    close,
  }
}
type SqliteThread = Awaited<ReturnType<typeof startDatabase>>

/** The database behind its thread; a thread that ended by itself (out of memory) is replaced, until the database is closed. */
async function keepDatabase({ file, check, onProblem }: SqliteOptions & { file: string }) {
  let thread: SqliteThread = await startDatabase({ file, check })
  let isClosed = false
  return {
    /** The current thread. Rejects when none can be started. */
    async thread(): Promise<SqliteThread> {
      if (isClosed || !thread.isGone()) return thread
      thread = await startDatabase({ file, check: false }).catch((error: Error) => {
        throw new StorageUnavailable(
          `the thread of the database could not be started again: ${error.message}`,
        )
      })
      onProblem('the thread of the database ended by itself; another one has taken its place')
      return thread
    },
    close(): Promise<void> {
      isClosed = true
      return thread.close()
    },
  }
}

/** One at a time, in the order of the requests. */
function createTurns() {
  const waiting: (() => void)[] = []
  let isTaken = false
  return {
    async take(): Promise<void> {
      if (isTaken) await new Promise<void>((resolve) => waiting.push(resolve))
      isTaken = true
    },
    give(): void {
      const next = waiting.shift()
      if (next) next()
      else isTaken = false
    },
  }
}

function rowsFrom({ columns, json }: SqliteRows): Record<string, unknown>[] {
  return (JSON.parse(json) as unknown[][]).map((values) => {
    const row: Record<string, unknown> = {}
    for (const [at, name] of columns.entries()) row[name] = values[at]
    return row
  })
}

function driverOn(database: Awaited<ReturnType<typeof keepDatabase>>): Driver {
  const turns = createTurns()
  let thread: SqliteThread // the thread of the current turn: a transaction cannot continue in another thread
  let begins = false // whether the next statement begins the transaction, which saves a message

  async function execute(sql: string, parameters: readonly unknown[] = []) {
    const statement = { begins, sql, parameters: parameters.map(bound) }
    begins = false
    return await thread.execute(statement)
  }

  async function endTransaction(sql: 'commit' | 'rollback'): Promise<void> {
    if (begins) begins = false
    else await execute(sql)
  }

  const connection: DatabaseConnection = {
    async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
      const { rows, changes } = await execute(sql, parameters)
      return {
        rows: rows ? (rowsFrom(rows) as R[]) : [],
        ...(changes !== undefined && { numAffectedRows: BigInt(changes) }),
      }
    },
    streamQuery() {
      throw new Error('Rows are read a page at a time')
    },
  }

  return {
    init: async () => {},
    async acquireConnection() {
      await turns.take()
      try {
        thread = await database.thread()
        return connection
      } catch (error) {
        turns.give()
        throw error
      }
    },
    releaseConnection: async () => turns.give(),
    async beginTransaction() {
      begins = true
    },
    commitTransaction: () => endTransaction('commit'),
    rollbackTransaction: () => endTransaction('rollback'),
    destroy: database.close,
  }
}

/** kysely does not rely on it, but SQLite rolls back table changes, too: a kill during a migration leaves no trace. */
class Adapter extends SqliteAdapter {
  override get supportsTransactionalDdl() {
    return true
  }
}

/**
 * Rejects when the file is not a sound database: the ledger cannot be fetched again, so nothing may be guessed. After
 * an orderly end the file was already checked when that process opened it, so only a start after a crash checks it.
 */
export async function openSqlite(file: string, options: SqliteOptions): Promise<Kysely<Tables>> {
  const database = await keepDatabase({ file, ...options })
  const usual = new SqliteDialect({ database: () => Promise.reject(new Error('it is in its thread')) })
  return new Kysely<Tables>({
    dialect: {
      createAdapter: () => new Adapter(),
      createDriver: () => driverOn(database),
      createIntrospector: (db) => usual.createIntrospector(db),
      createQueryCompiler: () => usual.createQueryCompiler(),
    },
  })
}
