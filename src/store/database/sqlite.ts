/**
 * The embedded database: SQLite (libsql) in one file, write-ahead log, synced at every commit, so that what was
 * answered survives a power cut. It has a thread of its own, so that nothing which is served waits for the disk; one
 * connection a process, on which statements and transactions take turns. Other processes (`tributary ledger`) may read beside it.
 */
import { once } from 'node:events'
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  type QueryResult,
  SqliteAdapter,
  SqliteDialect,
} from 'kysely'
import { startThread } from '../../threads/pool.js'
import { bound } from './dialect.js'
import type { Tables } from './schema.js'
import { readSqliteRows } from './sqlite-rows.js'
import type { Opening, Statement, ThreadReply } from './sqlite-thread.js'
import { StorageUnavailable } from './unavailable.js'

const THREAD = new URL('./sqlite-thread.js', import.meta.url)

type SqliteOptions = {
  /** Looks for damage first. Default: only what opening a file shows. */
  check: boolean
  /** Told of what an operator should know. */
  onProblem: (problem: string) => void
}

type Done = Extract<ThreadReply, { kind: 'done' }>
type Waiting = { resolve(reply: Done): void; reject(error: Error): void }

/** The thread, as somebody to whom statements are sent. Rejects when the database cannot be opened. */
async function startDatabase(opening: Opening) {
  const thread = startThread(THREAD, { workerData: opening })
  const waiting: Waiting[] = [] // for a reply, in the order of what was sent
  let gone: Error | undefined
  let isClosing = false

  function end(reason: Error): void {
    gone ??= reason
    for (const { reject } of waiting.splice(0)) reject(gone)
  }

  const replied = () =>
    new Promise<Done>((resolve, reject) => {
      if (gone) return reject(gone)
      if (waiting.length === 0) thread.ref() // a process does not end over a statement
      waiting.push({ resolve, reject })
    })

  thread.on('message', (reply: ThreadReply) => {
    const first = waiting.shift()
    if (waiting.length === 0) thread.unref()
    if (reply.kind === 'done') return first?.resolve(reply)
    if (reply.kind === 'damaged') {
      const advice = 'restore it from a backup (docs/storage.md)'
      return first?.reject(new Error(`${opening.file} is damaged (${reply.found}); ${advice}`))
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
      thread.postMessage(statement) // first: for what cannot be sent no reply comes
      return await replied()
    },
    isGone: () => gone !== undefined,
    close,
  }
}
type SqliteThread = Awaited<ReturnType<typeof startDatabase>>

/** The database behind its thread; one that ended by itself (out of memory) makes room for another. */
async function keepDatabase({ file, check, onProblem }: SqliteOptions & { file: string }) {
  let thread: SqliteThread = await startDatabase({ file, check })
  return {
    /** The thread that works now. Rejects when there is none, and none can be had. */
    async thread(): Promise<SqliteThread> {
      if (!thread.isGone()) return thread
      thread = await startDatabase({ file, check: false }).catch((error: Error) => {
        throw new StorageUnavailable(
          `the thread of the database could not be started again: ${error.message}`,
        )
      })
      onProblem('the thread of the database ended by itself; another one has taken its place')
      return thread
    },
    close: () => thread.close(),
  }
}

/** One at a time, in the order of asking. */
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

function driverOn(database: Awaited<ReturnType<typeof keepDatabase>>): Driver {
  const turns = createTurns()
  let thread: SqliteThread // of whoever has the turn: no transaction goes on in another one
  let begins = false // the transaction that the next statement begins, which spares a message

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
        rows: rows ? (readSqliteRows(rows) as R[]) : [],
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

/** kysely does not count on it, but SQLite undoes tables too: a kill in the middle of a migration leaves nothing of it. */
class Adapter extends SqliteAdapter {
  override get supportsTransactionalDdl() {
    return true
  }
}

/**
 * Rejects when the file is not a sound database: the ledger cannot be fetched again, so nothing is guessed. After an
 * orderly end the file is as it was checked when it was opened then, so only what follows a crash is looked at.
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
