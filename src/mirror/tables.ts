/**
 * The copy in SQLite or PostgreSQL (copy.ts): a table, `tributary_mirror_signals`, one row a signal, and in `tributary_mirror_state`
 * what it is a copy of. Both change in one transaction. The rows of a walk wait in a table of their own meanwhile, so a feed of any
 * size fits, and rows that did not change are not written again.
 */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { type Kysely, sql } from 'kysely'
import { embedded, POSTGRES, type SqlDialect, type Tables } from '../store/database/database.js'
import { openPostgres } from '../store/database/postgres.js'
import { openSqlite } from '../store/database/sqlite.js'
import { type Copy, type CopyRow, type CopyState, type RowChange, stateIn, takeFolder } from './copy.js'

const CONNECTIONS = 2

type TableOptions = {
  db: Kysely<Tables>
  dialect: SqlDialect
  /** The type of a column that holds a signal. */
  json: 'text' | 'jsonb'
  /** Releases the lock that keeps other processes away. */
  release?: () => void
}

/** The row as JSON that PostgreSQL takes: U+FFFD stands for U+0000 and for halves of surrogate pairs. */
function storableText(row: CopyRow['row']): string {
  return JSON.stringify(row).replace(/(?<!\\)((?:\\\\)*)\\u(?:0000|d[89a-f]..)/gi, '$1\\ufffd')
}

async function openTable({ db, dialect, json, release }: TableOptions): Promise<Copy> {
  const type = sql.raw(json)

  async function prepare(): Promise<void> {
    await sql`create table if not exists tributary_mirror_signals
      (id text primary key, signal ${type} not null)`.execute(db)
    await sql`create table if not exists tributary_mirror_state
      (one integer primary key, state text not null)`.execute(db)
    await sql`create table if not exists tributary_mirror_walk
      (walk text not null, id text not null, signal ${type} not null, primary key (walk, id))`.execute(db)
  }

  async function close(): Promise<void> {
    await db.destroy()
    release?.()
  }

  try {
    await prepare()
  } catch (error) {
    await close()
    throw error
  }

  async function count(table: string, on: Kysely<Tables>): Promise<number> {
    const { rows } = await sql<{ count: number }>`select count(*) as count from ${sql.table(table)}`.execute(
      on,
    )
    return Number(rows[0]?.count)
  }

  async function held(on: Kysely<Tables>): Promise<CopyState | undefined> {
    const { rows } = await sql<{ state: string }>`select state from tributary_mirror_state`.execute(on)
    const state = rows[0] && stateIn(rows[0].state)
    return state && (await count('tributary_mirror_signals', on)) === state.rows ? state : undefined
  }

  async function keep(state: CopyState, tx: Kysely<Tables>): Promise<void> {
    await sql`insert into tributary_mirror_state (one, state) values (1, ${JSON.stringify(state)})
      on conflict (one) do update set state = excluded.state`.execute(tx)
  }

  /** The rows among these that are there, by id. */
  async function rowsOf(ids: readonly string[], tx: Kysely<Tables>): Promise<Map<string, CopyRow['row']>> {
    const named = dialect.given(ids.map((id) => ({ id })))
    const { rows } = await sql<{ id: string; signal: string | CopyRow['row'] }>`select id, signal
      from tributary_mirror_signals where id in (select value->>'id' from ${named})`.execute(tx)
    const rowIn = (signal: string | CopyRow['row']) =>
      typeof signal === 'string' ? (JSON.parse(signal) as CopyRow['row']) : signal
    return new Map(rows.map(({ id, signal }) => [id, rowIn(signal)]))
  }

  return {
    state: () => held(db),

    async amend(changes, said) {
      return await db.transaction().execute(async (tx) => {
        const state = await held(tx)
        if (!state) return undefined
        const there = await rowsOf([...changes.keys()], tx)
        const isLacking = ([id, { kind }]: [string, RowChange]) => kind === 'set' && !there.has(id)
        if ([...changes].some(isLacking)) return undefined
        const put: { id: string; signal: string }[] = []
        const gone: { id: string }[] = []
        for (const [id, change] of changes) {
          if (change.kind === 'remove') gone.push({ id })
          else {
            const row = change.kind === 'put' ? change.row : { ...there.get(id), ...change.members }
            put.push({ id, signal: storableText(row) })
          }
        }
        await sql`delete from tributary_mirror_signals
          where id in (select value->>'id' from ${dialect.given(gone)})`.execute(tx)
        await sql`insert into tributary_mirror_signals (id, signal)
          select value->>'id', cast(value->>'signal' as ${type}) from ${dialect.given(put)} where true
          on conflict (id) do update set signal = excluded.signal`.execute(tx)
        const removed = gone.filter(({ id }) => there.has(id)).length
        const added = put.filter(({ id }) => !there.has(id)).length
        const next = { ...state, ...said, rows: state.rows - removed + added }
        await keep(next, tx)
        return next
      })
    },

    async replace() {
      // Of a walk that was cut off: a copy has one mirror, so nobody works on those any more.
      await sql`delete from tributary_mirror_walk`.execute(db)
      const walk = randomUUID()
      const abandon = async () => {
        await sql`delete from tributary_mirror_walk where walk = ${walk}`.execute(db)
      }
      return {
        async add(rows) {
          const given = dialect.given(rows.map(({ id, row }) => ({ id, signal: storableText(row) })))
          await sql`insert into tributary_mirror_walk (walk, id, signal)
            select ${walk}, value->>'id', cast(value->>'signal' as ${type}) from ${given}`.execute(db)
        },
        async commit(state) {
          await db.transaction().execute(async (tx) => {
            await sql`delete from tributary_mirror_signals where not exists (select 1 from tributary_mirror_walk
              where walk = ${walk} and tributary_mirror_walk.id = tributary_mirror_signals.id)`.execute(tx)
            await sql`insert into tributary_mirror_signals (id, signal)
              select id, signal from tributary_mirror_walk where walk = ${walk}
              on conflict (id) do update set signal = excluded.signal
              where tributary_mirror_signals.signal <> excluded.signal`.execute(tx)
            if ((await count('tributary_mirror_signals', tx)) !== state.rows)
              throw new Error('another mirror works on these tables, and they are for one')
            await keep(state, tx)
            await sql`delete from tributary_mirror_walk where walk = ${walk}`.execute(tx)
          })
        },
        abandon,
      }
    },

    close,
  }
}

/** `feed.sqlite` in a folder. Rejects when it cannot be taken, or the file be opened. */
export async function openSqliteCopy(path: string, onProblem: (problem: string) => void): Promise<Copy> {
  const { folder, release } = await takeFolder(path)
  try {
    const db = await openSqlite(join(folder, 'feed.sqlite'), { check: false, onProblem })
    return await openTable({ db, dialect: embedded(Date.now), json: 'text', release })
  } catch (error) {
    release()
    throw error
  }
}

/** Tables in the first schema of the database's search path. Rejects when it cannot be reached or written. */
export async function openPostgresCopy(url: string, onProblem: (problem: string) => void): Promise<Copy> {
  const db = openPostgres({ url, connections: CONNECTIONS, onProblem })
  return await openTable({ db, dialect: POSTGRES, json: 'jsonb' })
}
