/**
 * A copy of a feed: where rows are kept, with the version that they are a copy of. It is replaced whole or not at all, so whoever
 * reads it sees one version of the feed, and a process that ends at any moment leaves the previous copy. In files it is
 * `feed.ndjson`, one signal a line in the feed's order, and in the same folder `state.json`: what it is a copy of, with the length
 * and the digest of the lines. Two files cannot change in one step; the digest tells when only the first did, or when somebody else
 * wrote to it, and then a whole walk makes both new. In SQLite or PostgreSQL it is a table, `tributary_mirror_signals`, one row a
 * signal, and in `tributary_mirror_state` what it is a copy of. Both change in one transaction. The rows of a walk wait in a table
 * of their own meanwhile, so a feed of any size fits, and rows that did not change are not written again.
 */
import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, open, readFile, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { type Kysely, sql } from 'kysely'
import { isRecord } from '../adcp/json.js'
import { makeFolder, syncFolder } from '../store/blob-files.js'
import { embedded, POSTGRES, type SqlDialect, type Tables } from '../store/database/database.js'
import { openPostgres } from '../store/database/postgres.js'
import { lockFolder, openSqlite } from '../store/database/sqlite.js'

/** What a copy is a copy of. The tokens are the agent's: they have no order and no parts. */
export type CopyState = {
  /** Which agent was asked what: a copy of another question is never taken for this one. */
  source: string
  /** `wholesale_feed_version`; absent where the agent has none, and then each reading is a whole walk. */
  version?: string
  /** `pricing_version`. */
  pricing?: string
  /** `cache_scope`: with an account, whether the copy is the account's own or the public one. */
  scope?: string
  rows: number
  /** When the walk that it comes from ended, ms since the epoch. */
  walkedAt: number
  /** `incomplete[]` of the walk: what the agent says is missing from the feed, or old. */
  incomplete: readonly unknown[]
}

/** A row of the feed as the agent sent it, under its `signal_agent_segment_id`. */
export type CopyRow = { id: string; row: Readonly<Record<string, unknown>> }

/** The next copy; readers of the copy see none of it before `commit`. */
export type Replacement = {
  /** Each id comes once. */
  add(rows: readonly CopyRow[]): Promise<void>
  /** Rows and state take the place of those before, in one step. */
  commit(state: CopyState): Promise<void>
  /** Removes all of it. */
  abandon(): Promise<void>
}

/** What became of a row. */
export type RowChange =
  | { kind: 'put'; row: CopyRow['row'] }
  /** Members of the row that is there. */
  | { kind: 'set'; members: CopyRow['row'] }
  | { kind: 'remove' }

/** By segment id. */
export type RowChanges = ReadonlyMap<string, RowChange>

/** Methods reject when the disk or the database cannot serve; the copy is then what it was. */
export type Copy = {
  /** Undefined where nothing is held, or where the content is not what was written: then a whole walk repairs it. */
  state(): Promise<CopyState | undefined>
  replace(): Promise<Replacement>
  /**
   * Changes some rows, and the versions of the state with them, in one step. Undefined, and nothing is changed, where nothing is
   * held, or not the row whose members are to be set.
   */
  amend(changes: RowChanges, versions: Pick<CopyState, 'version' | 'pricing'>): Promise<CopyState | undefined>
  close(): Promise<void>
}

const LINES = 'feed.ndjson'
const STATE = 'state.json'
const PORTION = 2 ** 20 // characters that are written at once
const CONNECTIONS = 2

type Written = CopyState & { bytes: number; sha256: string }

/** On disk when it resolves: a rename that is on disk before what it names leaves an empty file after a power cut. */
async function writeDown(file: string, text: string): Promise<void> {
  const handle = await open(file, 'w')
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function digestOfFile(file: string): Promise<string> {
  const digest = createHash('sha256')
  for await (const chunk of createReadStream(file)) digest.update(chunk as Buffer)
  return digest.digest('hex')
}

const lineOf = (row: CopyRow['row']) => `${JSON.stringify(row)}\n`
const ID = /"signal_agent_segment_id":("(?:[^"\\]|\\.)*")/g

/** The row of a line, where it may be one of those that change; most lines need not be parsed for that. */
function rowIn(line: string, changes: RowChanges): CopyRow | undefined {
  const isNamed = [...line.matchAll(ID)].some(([, id]) => changes.has(JSON.parse(id as string) as string))
  if (!isNamed) return undefined
  const row = JSON.parse(line) as CopyRow['row']
  const id = row.signal_agent_segment_id as string
  return changes.has(id) ? { id, row } : undefined
}

/** Without their ends. A line is what ends in "\n": `readline` ends them at U+2028 too, which JSON may hold. */
async function* linesOf(file: string): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of createReadStream(file, 'utf8')) {
    const lines = `${rest}${chunk}`.split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
}

function changed(row: CopyRow['row'], change: RowChange): CopyRow['row'] | undefined {
  if (change.kind === 'put') return change.row
  return change.kind === 'set' ? { ...row, ...change.members } : undefined
}

/** What the state says, when the lines are those that it was written for. */
async function readState(folder: string): Promise<CopyState | undefined> {
  try {
    const written: unknown = JSON.parse(await readFile(join(folder, STATE), 'utf8'))
    if (!isRecord(written) || typeof written.source !== 'string') return undefined
    const { bytes: _, sha256, ...state } = written as Written
    return (await digestOfFile(join(folder, LINES))) === sha256 ? state : undefined
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || error instanceof SyntaxError) return undefined
    throw error
  }
}

/** Takes the folder, which is made where it is not there. Rejects when another process has it, or it cannot be written. */
export async function openJsonLines(path: string): Promise<Copy> {
  const folder = resolve(path)
  await makeFolder(folder)
  const release = await lockFolder(folder)
  const part = join(folder, `${LINES}.part`)
  // The folder is locked until it is closed, so its state is read once and then remembered.
  let held = await readState(folder).catch((error: unknown) => {
    release()
    throw error
  })
  let writing: FileHandle | undefined

  async function drop(): Promise<void> {
    await writing?.close()
    writing = undefined
    await rm(part, { force: true })
  }

  /** Lines that take the place of those before once they are committed. */
  async function rewrite() {
    await drop()
    const handle = await open(part, 'w')
    writing = handle
    const digest = createHash('sha256')
    let bytes = 0
    return {
      async add(text: string): Promise<void> {
        const lines = Buffer.from(text)
        digest.update(lines)
        bytes += lines.length
        await handle.writeFile(lines)
      },
      async commit(state: CopyState): Promise<void> {
        await handle.sync()
        await handle.close()
        writing = undefined
        const written: Written = { ...state, bytes, sha256: digest.digest('hex') }
        await writeDown(join(folder, `${STATE}.part`), `${JSON.stringify(written)}\n`)
        held = undefined // between the two renames the folder holds no valid copy
        await rename(part, join(folder, LINES))
        await rename(join(folder, `${STATE}.part`), join(folder, STATE))
        await syncFolder(folder)
        held = state
      },
    }
  }

  return {
    state: async () => held,
    async replace() {
      const { add, commit } = await rewrite()
      return { add: (rows) => add(rows.map(({ row }) => lineOf(row)).join('')), commit, abandon: drop }
    },

    /** Rows stay where they are; new ones come last. */
    async amend(changes, versions) {
      if (!held) return undefined
      const { add, commit } = await rewrite()
      try {
        const left = new Map(changes)
        let [rows, text] = [0, '']
        const write = async (line: string) => {
          text += line
          rows += 1
          if (text.length < PORTION) return
          await add(text)
          text = ''
        }
        for await (const line of linesOf(join(folder, LINES))) {
          const found = rowIn(line, changes)
          const change = found && left.get(found.id)
          if (!change) {
            await write(`${line}\n`)
            continue
          }
          left.delete(found.id)
          const row = changed(found.row, change)
          if (row) await write(lineOf(row))
        }
        for (const change of left.values()) {
          if (change.kind === 'set') return undefined
          if (change.kind === 'put') await write(lineOf(change.row))
        }
        await add(text)
        const state = { ...held, ...versions, rows }
        await commit(state)
        return state
      } finally {
        await drop()
      }
    },

    async close() {
      await drop()
      release()
    },
  }
}

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

/** What the text says, when it is a state. */
function stateIn(text: string): CopyState | undefined {
  const state: unknown = JSON.parse(text)
  return isRecord(state) && typeof state.source === 'string' ? (state as CopyState) : undefined
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

    async amend(changes, versions) {
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
        const next = { ...state, ...versions, rows: state.rows - removed + added }
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

/**
 * `feed.sqlite` in a folder, which is made where it is not there. Rejects when another process has it, or it cannot be
 * written.
 */
export async function openSqliteCopy(path: string, onProblem: (problem: string) => void): Promise<Copy> {
  const folder = resolve(path)
  await makeFolder(folder)
  const release = await lockFolder(folder)
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
