/**
 * The durable state of one Tributary behind one interface: an embedded SQLite with blobs as files in a folder, or a
 * PostgreSQL that replicas share (docs/decisions.md#dependencies, docs/configuration.md `storage`). The repositories
 * are the same on both, so the whole state can be moved from one to the other.
 */
import { join } from 'node:path'
import { type Kysely, type Migration, sql, type Transaction } from 'kysely'
import type { AddedBlobs } from '../upstreams/rows/storage.js'
import { makeFolder, openBlobFiles } from './blob-files.js'
import { createBlobRows } from './blob-rows.js'
import { carryOver } from './carry-over.js'
import {
  type Db,
  embedded,
  POSTGRES,
  SHARED_TABLES,
  type SqlDialect,
  STATE_TABLES,
  type Tables,
} from './database/database.js'
import { createSeal, type Seal } from './database/seal.js'
import {
  databaseFile,
  lockFolder,
  markClosed,
  openSqlite,
  requireFiles,
  storageFolder,
  wasClosed,
} from './database/sqlite.js'
import { openingWork, storageMethods, storageWork, watchedStorage } from './database/storage-work.js'
import { createJobs } from './jobs.js'
import { EMBEDDED_MIGRATIONS, migrate, SHARED_MIGRATIONS } from './migrations.js'
import { createSteps, type PromisedRecords, type Steps } from './promised-work.js'
import {
  type Accounts,
  createAccounts,
  createSubscriptionRecords,
  type Subscriptions,
} from './records/accounts.js'
import {
  type Audit,
  createAudit,
  createSignalChanges,
  createWork,
  type SignalChanges,
  type Work,
} from './records/activity.js'
import { createFound, type FoundRows } from './records/found.js'
import { createIdempotency } from './records/idempotency.js'
import { createLedger } from './records/ledger.js'
import { createTasks } from './records/tasks.js'
import { createHandover, type Handover } from './replicas/handover.js'
import { createLeases } from './replicas/leases.js'
import { createNonces, type Nonces } from './replicas/nonces.js'
import { CHANNEL, createNotes } from './replicas/notes.js'
import type { Replicas } from './replicas/replica.js'
import { DEFAULT_RETENTION } from './retention.js'

export type StoreOptions = {
  /** `file:` and a folder, relative to the working folder or absolute; or `postgres://...`. */
  url: string
  now: () => number
  /**
   * The first key encrypts secrets, every key decrypts them (`storage.key`). Default: none, and secrets stay in memory.
   */
  keys?: readonly string[]
  /** How long answers for repeated requests are kept, ms. Default: 24 hours. */
  answersMs?: number
  /** Opens it for reading only, while another process works on it. Default: no. */
  whileInUse?: boolean
  /** How long PostgreSQL may take for one statement, ms. Default: 30 s. */
  statementMs?: number
  /** How long a PostgreSQL statement may wait for a lock of another process, ms. Default: 5 s. */
  lockMs?: number
  /** Receives what an operator should know: a damaged blob, a lost connection, a full disk. */
  onProblem: (problem: string) => void
}

/** Everything that one transaction reads and writes. */
export type Repositories = PromisedRecords & {
  accounts: Accounts
  subscriptions: Subscriptions
  found: FoundRows
  audit: Audit
  signalChanges: SignalChanges
  work: Work
}

/** Every method of every repository rejects with `StorageUnavailable` when the storage cannot serve. */
export type Store = Repositories &
  Steps & {
    /** Whether other processes work on the same state, so that their leases must be respected. */
    shared: boolean
    /** Used nonces of signatures; only when the state is shared. */
    nonces?: Nonces
    /** What is kept for callers for some minutes; only when the state is shared. */
    handover?: Handover
    /** How processes on one state divide their work; absent when this one is alone. */
    replicas?: Replicas
    blobs: AddedBlobs
    /** Runs all of `work` or nothing of it. */
    write<T>(work: (repositories: Repositories, tx: Db) => Promise<T>): Promise<T>
    /** Why the storage failed when it was last used; undefined when it worked. */
    problem(): string | undefined
    /** For moving the state to another storage only; everything else uses the repositories. */
    db: Kysely<Tables>
    close(): Promise<void>
  }

type StateTable = keyof typeof STATE_TABLES

const stateTables = Object.keys(STATE_TABLES) as StateTable[]

const STATEMENT_MS = 30_000
const LOCK_MS = 5_000 // a statement that waits longer probably waits for a process that has stopped
const STATE_CONNECTIONS = 10
const BLOB_CONNECTIONS = 3 // saving large slices must leave connections free for activations
const MIGRATING = 2
const MOVED_AT_ONCE = 200 // rows, of twenty columns: well under the bound-parameter limits of both databases
const FOLDER_MODE = 0o700 // the state holds callers' webhook credentials

type Means = Pick<StoreOptions, 'now' | 'onProblem'> & {
  dialect: SqlDialect
  seal: Seal
  answersMs: number | undefined
}

function repositories(db: Db, means: Means): Repositories {
  const { now, dialect, seal, answersMs = DEFAULT_RETENTION.answersMs } = means
  return {
    idempotency: createIdempotency(db, now, dialect, seal, answersMs),
    jobs: createJobs(db, now, dialect, seal),
    ledger: createLedger(db, now, dialect),
    tasks: createTasks(db, now, seal),
    accounts: createAccounts(db, now, dialect, seal),
    subscriptions: createSubscriptionRecords(db, now, dialect, seal),
    found: createFound(db, now, seal),
    audit: createAudit(db, now),
    signalChanges: createSignalChanges(db),
    work: createWork(db, dialect, seal),
  }
}

function storeOn(db: Kysely<Tables>, blobs: AddedBlobs, shared: boolean, means: Means): Store {
  const direct = repositories(db, means)
  const transact = <T>(work: (repositories: Repositories, tx: Db) => Promise<T>) =>
    db.transaction().execute((tx) => work(repositories(tx, means), tx))
  const watched = watchedStorage(means.now, means.onProblem)
  const records = Object.entries(direct).map(([name, methods]) => [name, watched.using.methods(methods)])
  return {
    shared,
    blobs,
    ...(Object.fromEntries(records) as Repositories),
    ...watched.writing.methods(createSteps(transact)),
    write: (work) => watched.writing.work(() => transact(work)),
    problem: watched.problem,
    db,
    close: () => db.destroy(),
  }
}

/** Prepares an open database for use; closes it when that fails, and throws what failed. */
async function orClosed(close: () => Promise<unknown>, prepare: () => Promise<void>): Promise<void> {
  try {
    await prepare()
  } catch (error) {
    await close()
    throw error
  }
}

/** Throws the error of the database when one of the tables is not there. */
async function requireTables(db: Kysely<Tables>, tables: readonly (keyof Tables)[]): Promise<void> {
  await sql`select 1 as row from ${sql.join(tables.map((name) => sql.table(name)))} where false`.execute(db)
}

/** Gives the database the tables of this release; closes it when that fails. */
function bringUpToDate(
  db: Kysely<Tables>,
  migrations: Record<string, Migration>,
  tables: readonly (keyof Tables)[],
): Promise<void> {
  return orClosed(
    () => db.destroy(),
    async () => {
      await migrate(db, migrations)
      await requireTables(db, tables)
    },
  )
}

async function openEmbedded(folder: string, options: StoreOptions): Promise<Store> {
  const { now, keys = [], answersMs, whileInUse = false, onProblem } = options
  await makeFolder(folder, FOLDER_MODE)
  await makeFolder(join(folder, 'blobs')) // first: its error says best why a folder cannot be used
  await requireFiles(folder)
  const unlock = whileInUse ? () => {} : await lockFolder(folder)
  try {
    const blobs = await openBlobFiles({
      folder: join(folder, 'blobs'),
      sweep: !whileInUse,
      onDamage: (name, reason) => onProblem(`blob ${name} is ignored: ${reason}`),
    })
    const file = databaseFile(folder)
    const db = await openSqlite(file, { check: !whileInUse && !(await wasClosed(file)), onProblem })
    await bringUpToDate(db, EMBEDDED_MIGRATIONS, stateTables)
    const means = { now, onProblem, dialect: embedded(now), seal: createSeal(keys), answersMs }
    const store = storeOn(db, storageMethods(blobs), false, means)
    if (!whileInUse) {
      await orClosed(store.close, async () => {
        await carryOver(store)
        await store.jobs.endLeases() // no other process works on this folder: the holders of these leases have ended
      })
    }
    let isClosed = false
    return {
      ...store,
      async close() {
        if (isClosed) return
        isClosed = true
        await db.destroy()
        if (!whileInUse) await markClosed(file)
        unlock()
      },
    }
  } catch (error) {
    unlock()
    throw error
  }
}

async function databaseNow(db: Db): Promise<number> {
  const { rows } = await sql<{ now: number }>`select ${POSTGRES.now()} as now`.execute(db)
  return (rows[0] as { now: number }).now
}

async function openShared(options: StoreOptions): Promise<Store> {
  const { url, now, keys = [], answersMs, whileInUse = false, onProblem } = options
  const { statementMs = STATEMENT_MS, lockMs = LOCK_MS } = options
  const told = {
    url,
    onProblem: (problem: string) => onProblem(`a database connection was lost: ${problem}`),
  }
  // An embedded storage needs neither this nor the driver that it loads.
  const { listenPostgres, openPostgres } = await import('./database/postgres.js')
  const patient = openPostgres({ ...told, connections: MIGRATING }) // a step over a large table may take long
  await bringUpToDate(patient, SHARED_MIGRATIONS, [...stateTables, ...SHARED_TABLES])
  await patient.destroy()
  const db = openPostgres({ ...told, connections: STATE_CONNECTIONS, statementMs, lockMs })
  const blobDb = openPostgres({ ...told, connections: BLOB_CONNECTIONS, statementMs })
  const onDamage = (name: string, reason: string) => onProblem(`blob ${name} is ignored: ${reason}`)
  const blobs = storageMethods(createBlobRows({ db: blobDb, onDamage }))
  const seal = createSeal(keys)
  const store = storeOn(db, blobs, true, { now, onProblem, dialect: POSTGRES, seal, answersMs })
  const close = async () => void (await Promise.all([db.destroy(), blobDb.destroy()]))
  if (!whileInUse) await orClosed(close, () => carryOver(store))
  return {
    ...store,
    nonces: storageMethods(createNonces(db, now)),
    handover: storageMethods(createHandover(db, seal, now)),
    replicas: {
      now: () => storageWork(() => databaseNow(db)),
      leases: storageMethods(createLeases(db)),
      notes: storageMethods(createNotes(db)),
      write: blobs.writeUnder,
      remove: blobs.removeUnder,
      freed: blobs.freed,
      mend: blobs.mend,
      sweep: blobs.sweep,
      listen: (onNews) => listenPostgres(url, CHANNEL, onNews),
    },
    close,
  }
}

/**
 * Opens the storage and brings its tables up to date. Throws `StorageUnavailable` when it cannot be reached or used,
 * and `StorageUnusable` when it is damaged, in use, of a newer release, or not what it should be.
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { url } = options
  if (/^postgres(ql)?:\/\//.test(url)) return await openingWork(() => openShared(options))
  const folder = storageFolder(url)
  if (folder === undefined) {
    throw new Error('storage.url: expected file:<folder> or postgres://..., got another kind of url')
  }
  return await openingWork(() => openEmbedded(folder, options))
}

/** Rows per table and blobs that were moved. */
type Moved = Record<StateTable | 'blobs', number>

async function copyTable(from: Kysely<Tables>, to: Transaction<Tables>, table: StateTable): Promise<number> {
  const inOrder = STATE_TABLES[table].map((column) => sql.ref(column))
  for (let offset = 0; ; offset += MOVED_AT_ONCE) {
    const rows = await from
      .selectFrom(table)
      .selectAll()
      .orderBy(sql.join(inOrder))
      .limit(MOVED_AT_ONCE)
      .offset(offset)
      .execute()
    if (rows.length > 0) await to.insertInto(table).values(rows).execute()
    if (rows.length < MOVED_AT_ONCE) return offset + rows.length
  }
}

async function isEmpty(db: Kysely<Tables>, table: StateTable): Promise<boolean> {
  return (await db.selectFrom(table).select(sql.lit(1).as('row')).limit(1).execute()).length === 0
}

/** The next job has a higher number than any that was moved. The ledger keeps its numbers for longer than there are jobs. */
async function goOnNumbering(tx: Transaction<Tables>, shared: boolean): Promise<void> {
  const highest = sql`(select max(seq) from (select seq from jobs union all select seq from activations) as numbered)`
  if (shared) {
    await sql`select setval(pg_get_serial_sequence('jobs', 'seq'), nullif(${highest}, 0))`.execute(tx)
    return
  }
  await sql`delete from sqlite_sequence where name = 'jobs'`.execute(tx)
  await sql`insert into sqlite_sequence (name, seq) select 'jobs', coalesce(${highest}, 0)`.execute(tx)
}

/**
 * Moves the whole state: all rows in one transaction, then the blobs. The source is only read. Stop the server first: what it writes
 * during the move is lost. Throws when the target already holds state.
 */
export async function moveStore(from: Store, to: Store): Promise<Moved> {
  for (const table of stateTables) {
    if (!(await isEmpty(to.db, table))) {
      throw new Error(`the target storage already holds state (table ${table}): move into an empty one`)
    }
  }
  const moved = { ...Object.fromEntries(stateTables.map((table) => [table, 0])), blobs: 0 } as Moved
  await to.db.transaction().execute(async (tx) => {
    for (const table of stateTables) moved[table] = await copyTable(from.db, tx, table)
    await goOnNumbering(tx, to.shared)
  })
  for (const name of await from.blobs.list('')) {
    const parts = await from.blobs.read(name)
    if (!parts) continue // damaged, and reported: the content of blobs can be fetched again
    await to.blobs.write(name, parts)
    moved.blobs += 1
  }
  return moved
}
