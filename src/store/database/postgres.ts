/**
 * The shared database: PostgreSQL, bounded pools a process; several replicas work on the same tables. A connection on
 * which a statement got no answer is destroyed and never used again: its transaction may still be open on the server,
 * and what the next user wrote on it would be acknowledged and then lost.
 */
import { Kysely, PostgresDialect, type PostgresPoolClient } from 'kysely'
import pg from 'pg'
import { bound } from './dialect.js'
import type { Tables } from './schema.js'

const CONNECT_MS = 10_000 // waiting for a free connection included: a burst queues, a database that is gone is told in time
const SILENCES = 3 // in a statement's time: statements of a transaction follow each other at once
const BIGINT = 20 // pg_type oid: instants fit a double, so they come as numbers as they do from SQLite

type PostgresOptions = {
  url: string
  connections: number
  /** How long one statement may take, ms; without it as long as it needs. */
  statementMs?: number
  /**
   * How long a statement may wait for another transaction's locks, ms; without it as long as a statement may take. A process
   * that stopped in the middle of a transaction holds its locks until the server ends that transaction.
   */
  lockMs?: number
  /** Told of idle connections that the server closed; the pool opens new ones by itself. */
  onProblem: (problem: string) => void
}

/** The server itself said so: the connection is in step with it and its transaction can be rolled back. */
function isFromServer(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.severity !== 'FATAL'
}

/** A connection that is destroyed when it is given back after a statement without an answer. */
function guarded(client: pg.PoolClient): PostgresPoolClient {
  let lost: Error | undefined

  async function query(sql: string, parameters: readonly unknown[] = []): Promise<unknown> {
    // Nothing may follow: closing the connection is what rolls its transaction back.
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

/** The database behind a pool of its own. */
export function openPostgres(options: PostgresOptions): Kysely<Tables> {
  const { url, connections, statementMs, lockMs, onProblem } = options
  const pool = new pg.Pool({
    connectionString: url,
    max: connections,
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
    // The server gives up first, so that a slow statement is told by it; our own limit is for a server that says nothing.
    ...(statementMs !== undefined && {
      statement_timeout: statementMs,
      idle_in_transaction_session_timeout: statementMs / SILENCES,
      query_timeout: statementMs + CONNECT_MS / 10,
    }),
    ...(lockMs !== undefined && { lock_timeout: lockMs }),
    types: {
      getTypeParser: ((oid: number, format?: 'text') =>
        oid === BIGINT ? Number : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
    },
  })
  pool.on('error', (error) => onProblem(error.message))
  // The pool listens to idle connections only: one that is lost between two queries of a transaction would end the
  // process. Its next query fails, which is how the work it belongs to learns of it.
  pool.on('connect', (client) => client.on('error', () => {}))
  const clients = { connect: async () => guarded(await pool.connect()), end: () => pool.end() }
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool: clients as never }) })
}

const LISTEN_AGAIN_MS = 1_000

/**
 * Calls back at each notification on the channel, and after each time that the server could not be heard. Gives how to stop.
 * Listening needs a connection of its own: one of a pool is somebody else's the next moment.
 */
export function listenPostgres(url: string, channel: string, onNotice: () => void): () => Promise<void> {
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
    await client?.end().catch(() => {})
  }
}
