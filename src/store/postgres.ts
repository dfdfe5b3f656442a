/** The shared database: PostgreSQL, one bounded pool a process; several replicas work on the same tables. */
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import type { Tables } from './schema.js'

const POOL_SIZE = 10
const CONNECT_MS = 10_000 // waiting for a free connection included: a burst queues, a database that is gone is told in time
const QUERY_MS = 30_000
const BIGINT = 20 // pg_type oid: instants fit a double, so they come as numbers as they do from SQLite

/** `onProblem` is told of idle connections that the server closed; the pool opens new ones by itself. */
export function openPostgres(url: string, onProblem: (problem: string) => void): Kysely<Tables> {
  const pool = new pg.Pool({
    connectionString: url,
    max: POOL_SIZE,
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: QUERY_MS,
    types: {
      getTypeParser: ((oid: number, format?: 'text') =>
        oid === BIGINT ? Number : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
    },
  })
  pool.on('error', (error) => onProblem(error.message))
  // The pool listens to idle connections only: one that is lost between two queries of a transaction would end the
  // process. Its next query fails, which is how the work it belongs to learns of it.
  pool.on('connect', (client) => client.on('error', () => {}))
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
}
