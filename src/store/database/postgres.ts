/**
 * The shared database: PostgreSQL, with bounded pools per process; several replicas work on the same tables. A
 * connection on which a statement got no answer is destroyed and never used again: its transaction may still be open on
 * the server, and writes in it would be acknowledged and then lost.
 */
import { Socket } from 'node:net'
import { Kysely, PostgresDialect, type PostgresPoolClient } from 'kysely'
import pg from 'pg'
import { bound, type Tables } from './database.js'
import { reached, StorageUnusable } from './storage-work.js'

const CONNECT_MS = 10_000 // includes waiting for a free connection: long enough for a burst, short enough to report a lost database
const SILENCES = 3 // statements of a transaction follow each other at once, so this many statement limits without one mean a dead client
const PARTING_MS = 1_000 // longer than a server takes that hears that a connection ends
const BIGINT = 20 // pg_type oid: instants fit in a double, so they are read as numbers, like from SQLite

/**
 * An operator's limits for the role or the database are meant for everyday statements. What a connection asks for as it begins stands
 * before them, where a statement that asks for it would itself run under them. The driver leaves out the number 0.
 */
const UNLIMITED = '0' as unknown as number

type PostgresOptions = {
  url: string
  connections: number
  /** How long one statement may take, ms; absent for no limit. */
  statementMs?: number
  /**
   * How long a statement may wait for another transaction's locks, ms; absent for the statement's own limit. A process
   * that stopped in the middle of a transaction holds its locks until the server ends the transaction.
   */
  lockMs?: number
  /** Receives errors of idle connections that the server closed; the pool opens new ones by itself. */
  onProblem: (problem: string) => void
}

/** The server itself reported the error: the connection still works, and its transaction can be rolled back. */
function isFromServer(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.severity !== 'FATAL'
}

/** A connection that is destroyed on release after a statement without an answer. */
function guarded(client: pg.PoolClient): PostgresPoolClient {
  let lost: Error | undefined

  async function query(sql: string, parameters: readonly unknown[] = []): Promise<unknown> {
    // No statement may follow: closing the connection is what rolls its transaction back.
    if (lost) throw lost
    try {
      return await client.query(sql, parameters.map(bound))
    } catch (error) {
      if (!isFromServer(error)) lost = error as Error
      throw error
    }
  }

  return { query: query as never, release: () => client.release(lost) }
}

/** Throws for a url that the driver cannot read; it is not repeated, for it may hold a password. */
function requireReadable(url: string): void {
  try {
    void new pg.Client(url)
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'ERR_INVALID_URL' && !(error instanceof URIError)) throw error
    throw new StorageUnusable(
      'the url of the database cannot be read; its port is at most 65535, and what has a meaning in a url (/ ? # % [ ]) is written as %2F, %3F, %23, %25, %5B and %5D in a name or a password',
      { cause: error },
    )
  }
}

/** The sockets of connections. A server that has fallen silent closes none of them, and an open one keeps the process alive. */
function createSockets() {
  const open = new Set<Socket>()
  return {
    made(): Socket {
      const socket = new Socket()
      open.add(socket)
      return socket.once('close', () => open.delete(socket))
    },
    /** Those that are left after a moment are closed from here. Nothing that matters may be under way in them. */
    part(): void {
      setTimeout(() => {
        for (const socket of open) socket.destroy()
      }, PARTING_MS).unref()
    },
  }
}

/** The database behind a pool of its own. */
export function openPostgres(options: PostgresOptions): Kysely<Tables> {
  const { url, connections, statementMs, lockMs, onProblem } = options
  requireReadable(url)
  const sockets = createSockets()
  const pool = new pg.Pool({
    connectionString: url,
    stream: sockets.made,
    max: connections,
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
    statement_timeout: statementMs ?? UNLIMITED,
    idle_in_transaction_session_timeout: statementMs === undefined ? UNLIMITED : statementMs / SILENCES,
    lock_timeout: lockMs ?? UNLIMITED,
    // The server's limit ends first, so that it reports a slow statement; our own limit is for a server that does not
    // answer at all.
    ...(statementMs !== undefined && { query_timeout: statementMs + CONNECT_MS / 10 }),
    types: {
      getTypeParser: ((oid: number, format?: 'text') =>
        oid === BIGINT ? Number : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
    },
  })
  pool.on('error', (error) => onProblem(error.message))
  // The pool listens for errors of idle connections only. Without this listener, a connection lost between two queries
  // of a transaction would end the process. The work that it belongs to fails at its next query.
  pool.on('connect', (client) => client.on('error', () => {}))
  async function end(): Promise<void> {
    await pool.end()
    sockets.part()
  }
  const clients = { connect: async () => guarded(await reached(pool.connect())), end }
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool: clients as never }) })
}

const LISTEN_AGAIN_MS = 1_000

/**
 * Calls back at each notification on the channel, and after each interruption of listening. Returns a function that
 * stops it. It uses its own connection, because a pool may give one to somebody else at any time.
 */
export function listenPostgres(url: string, channel: string, onNotice: () => void): () => Promise<void> {
  const sockets = createSockets()
  let client: pg.Client | undefined
  let timer: NodeJS.Timeout | undefined
  let closed = false

  function again(): void {
    void client?.end().catch(() => {})
    client = undefined
    if (closed || timer) return
    timer = setTimeout(() => {
      timer = undefined
      connect()
    }, LISTEN_AGAIN_MS)
    timer.unref()
  }

  function connect(): void {
    const opened = new pg.Client({
      connectionString: url,
      stream: sockets.made,
      connectionTimeoutMillis: CONNECT_MS,
      keepAlive: true,
    })
    client = opened
    opened.on('notification', onNotice)
    opened.on('error', again).on('end', again)
    opened
      .connect()
      .then(() => opened.query(`listen ${channel}`))
      .then(onNotice, again)
  }

  connect()
  return async () => {
    closed = true
    clearTimeout(timer)
    sockets.part()
    await client?.end().catch(() => {})
  }
}
