/**
 * The durable state of one Tributary, behind one door: an embedded SQLite with blobs as files under a folder, or a
 * PostgreSQL that replicas share (docs/decisions.md#dependencies, docs/configuration.md `storage`). Repositories are
 * the same on both.
 */
import { join, resolve } from 'node:path'
import type { Kysely, Migration } from 'kysely'
import type { Blobs } from '../upstreams/blobs.js'
import { type Accounts, createAccounts } from './accounts.js'
import { openBlobFiles } from './blob-files.js'
import { createBlobRows } from './blob-rows.js'
import { type Calls, createCalls } from './calls.js'
import { makeFolder } from './folder.js'
import { createFound, type Found } from './found.js'
import { createGroupCommit } from './group-commit.js'
import { createIdempotency, type Idempotency } from './idempotency.js'
import { createLedger, type Ledger } from './ledger.js'
import { EMBEDDED_MIGRATIONS, migrate, SHARED_MIGRATIONS } from './migrations.js'
import { openPostgres } from './postgres.js'
import type { Db, Tables } from './schema.js'
import { openSqlite } from './sqlite.js'
import { createTasks, type Tasks } from './tasks.js'
import { storageMethods, storageWork } from './unavailable.js'

export type StoreOptions = {
  /** `file:` and a folder, relative to the working folder or absolute; or `postgres://...`. */
  url: string
  now: () => number
  /** How long PostgreSQL may take for one statement, ms. Default: 30 s. */
  statementMs?: number
  /** Told of what an operator should know: a damaged blob, a connection that was lost. */
  onProblem: (problem: string) => void
}

export type Repositories = {
  idempotency: Idempotency
  calls: Calls
  ledger: Ledger
  tasks: Tasks
  accounts: Accounts
  found: Found
}

/** Every method of every repository rejects with `StorageUnavailable` when the storage cannot serve. */
export type Store = Repositories & {
  /** True when other processes work on the same state: their leases are respected. */
  shared: boolean
  blobs: Blobs
  /** All of `work` or nothing of it. */
  write<T>(work: (repositories: Repositories, tx: Db) => Promise<T>): Promise<T>
  /** For moving the state to another storage; repositories are the way for everything else. */
  db: Kysely<Tables>
  close(): Promise<void>
}

const STATEMENT_MS = 30_000
const STATE_CONNECTIONS = 10
const BLOB_CONNECTIONS = 3 // saving large slices must not keep an activation waiting for a connection
const MIGRATING = 2
const FOLDER_MODE = 0o700 // the state holds callers' webhook credentials

function repositories(db: Db, now: () => number): Repositories {
  return {
    idempotency: createIdempotency(db, now),
    calls: createCalls(db, now),
    ledger: createLedger(db, now),
    tasks: createTasks(db, now),
    accounts: createAccounts(db, now),
    found: createFound(db, now),
  }
}

function storeOn(db: Kysely<Tables>, blobs: Blobs, shared: boolean, now: () => number): Store {
  const direct = repositories(db, now)
  const transact: ReturnType<typeof createGroupCommit> = shared
    ? (work) => db.transaction().execute(work)
    : createGroupCommit(db)
  return {
    shared,
    blobs,
    idempotency: storageMethods(direct.idempotency),
    calls: storageMethods(direct.calls),
    ledger: storageMethods(direct.ledger),
    tasks: storageMethods(direct.tasks),
    accounts: storageMethods(direct.accounts),
    found: storageMethods(direct.found),
    write: (work) => storageWork(() => transact((tx) => work(repositories(tx, now), tx))),
    db,
    close: () => db.destroy(),
  }
}

async function migrated(db: Kysely<Tables>, migrations: Record<string, Migration>): Promise<Kysely<Tables>> {
  try {
    await migrate(db, migrations)
    return db
  } catch (error) {
    await db.destroy()
    throw error
  }
}

async function openEmbedded(folder: string, { now, onProblem }: StoreOptions): Promise<Store> {
  await makeFolder(folder, FOLDER_MODE)
  const blobs = await openBlobFiles({
    folder: join(folder, 'blobs'),
    onDamage: (name, reason) => onProblem(`blob ${name} is ignored: ${reason}`),
  })
  const db = await migrated(openSqlite(join(folder, 'tributary.db')), EMBEDDED_MIGRATIONS)
  return storeOn(db, storageMethods(blobs), false, now)
}

async function openShared({ url, now, statementMs = STATEMENT_MS, onProblem }: StoreOptions): Promise<Store> {
  const told = {
    url,
    onProblem: (problem: string) => onProblem(`a database connection was lost: ${problem}`),
  }
  const patient = openPostgres({ ...told, connections: MIGRATING }) // a step over a large table takes its time
  await migrated(patient, SHARED_MIGRATIONS)
  await patient.destroy()
  const db = openPostgres({ ...told, connections: STATE_CONNECTIONS, statementMs })
  const blobDb = openPostgres({ ...told, connections: BLOB_CONNECTIONS, statementMs })
  const onDamage = (name: string, reason: string) => onProblem(`blob ${name} is ignored: ${reason}`)
  const store = storeOn(db, storageMethods(createBlobRows({ db: blobDb, onDamage })), true, now)
  const close = async () => void (await Promise.all([db.destroy(), blobDb.destroy()]))
  return { ...store, close }
}

/**
 * Opens the storage and brings its tables up to date. Throws `StorageUnavailable` when it cannot be reached or used,
 * and an Error when it is damaged or of a newer release.
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { url } = options
  if (/^postgres(ql)?:\/\//.test(url)) return await storageWork(() => openShared(options))
  if (!url.startsWith('file:')) {
    throw new Error('storage.url: expected file:<folder> or postgres://..., got another kind of url')
  }
  const folder = url.slice('file:'.length).replace(/^\/\/(?=\/)/, '') // file:///var/lib is /var/lib too
  return await storageWork(() => openEmbedded(resolve(folder), options))
}
