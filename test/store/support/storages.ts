/** Runs one rule on every storage: SQLite in a temporary folder and a throwaway PostgreSQL. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tap, { type Test, test } from 'tap'
import { openStore, type Store, type StoreOptions } from '../../../src/store/store.js'
import { createDatabases, type Postgres, postgresBinaries, startPostgres } from './postgres.js'

export type Storage = {
  url: string
  /** A clock that only the test moves. */
  clock: { now: number }
  problems: string[]
  /** A new connection to the same state, as another process would have; closed when the test ends. */
  open(more?: Partial<StoreOptions>): Promise<Store>
  /** Whether several processes can hold it at once: PostgreSQL. */
  isShared: boolean
}

/** Ends the lease of jobs, or the pause before their next attempt: as if time had passed on the database's clock. */
export async function due({ db }: Pick<Store, 'db'>, ...ids: readonly string[]): Promise<void> {
  const past = db.updateTable('jobs').set({ due: 0 }).where('due', 'is not', null)
  await (ids.length > 0 ? past.where('id', 'in', ids) : past).execute()
}

const START = Date.UTC(2026, 0, 15)
const binaries = postgresBinaries()
let databases: Promise<ReturnType<typeof createDatabases>> | undefined

/** Databases of the server that the test runner started for all files, or else of one of this file. */
async function openDatabases(binaries: string): Promise<ReturnType<typeof createDatabases>> {
  const port = process.env.TRIBUTARY_TEST_POSTGRES
  if (port) return createDatabases(Number(port))
  const own = await startPostgres(binaries)
  tap.teardown(() => {
    databases = undefined // the next file of this process has a server of its own
    return own.remove()
  })
  return createDatabases(own.port)
}

function storageAt(t: Test, url: string): Storage {
  const clock = { now: START }
  const problems: string[] = []
  return {
    url,
    clock,
    problems,
    isShared: !url.startsWith('file:'),
    async open(more = {}) {
      const onProblem = (problem: string) => problems.push(problem)
      const store = await openStore({ url, now: () => clock.now, onProblem, ...more })
      t.teardown(() => store.close())
      return store
    },
  }
}

/** An embedded storage in a folder that goes away with the test. */
export async function embedded(t: Test): Promise<Storage> {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-store-'))
  const storage = storageAt(t, `file:${folder}`)
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return storage
}

async function taken(t: Test, kind: 'bare' | 'cleared'): Promise<Storage | undefined> {
  if (!binaries) return undefined
  databases ??= openDatabases(binaries)
  const { take, give } = (await databases)[kind]
  const url = await take()
  t.teardown(() => give(url)) // after its connections are closed: what was registered last is done first
  return storageAt(t, url)
}

/** A database in PostgreSQL that holds nothing, and whose tables only `openStore` makes; undefined when the machine has none. */
export const shared = (t: Test) => taken(t, 'cleared')

/** A database in PostgreSQL without tables, for whoever makes tables of its own; undefined when the machine has none. */
export const bare = (t: Test) => taken(t, 'bare')

/** A database in a PostgreSQL of its own, which the test may end and start again. */
export async function mortal(t: Test): Promise<(Storage & { server: Postgres }) | undefined> {
  if (!binaries) return undefined
  const server = await startPostgres(binaries)
  t.teardown(server.remove)
  return { ...storageAt(t, server.url), server }
}

export const NO_POSTGRES = binaries
  ? false
  : 'no PostgreSQL on this machine: pg_config does not name its binaries'

type Proof = (t: Test, storage: Storage) => Promise<void>

function onEvery(rule: string, prove: Proof, postgres: typeof shared): void {
  test(`${rule} (SQLite)`, async (t) => prove(t, await embedded(t)))
  test(`${rule} (PostgreSQL)`, { skip: NO_POSTGRES }, async (t) => {
    const storage = await postgres(t)
    if (storage) await prove(t, storage)
  })
}

export const onEveryStorage = (rule: string, prove: Proof) => onEvery(rule, prove, shared)

/** For who makes other tables than this release, or looks at how it makes them. */
export const onEveryBareStorage = (rule: string, prove: Proof) => onEvery(rule, prove, bare)
