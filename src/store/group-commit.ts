/**
 * Many units of work in one commit. On an embedded database a commit is a wait for the disk, one after the other; what
 * arrives during a wait goes into the next commit together, each unit behind a savepoint of its own, so that one that
 * fails takes none with it. Nothing is told as done before its commit.
 */
import { type Kysely, sql, type Transaction } from 'kysely'
import type { Tables } from './schema.js'

const MOST_IN_A_COMMIT = 64 // bounds how long one unit waits for the others of its commit

type Unit = {
  work(tx: Transaction<Tables>): Promise<unknown>
  resolve(value: unknown): void
  reject(error: unknown): void
}
type Outcome = { kind: 'done'; value: unknown } | { kind: 'failed'; error: unknown }

async function behindSavepoint(tx: Transaction<Tables>, unit: Unit): Promise<Outcome> {
  await sql`savepoint unit`.execute(tx)
  try {
    const value = await unit.work(tx)
    await sql`release unit`.execute(tx)
    return { kind: 'done', value }
  } catch (error) {
    try {
      await sql`rollback to unit`.execute(tx)
      await sql`release unit`.execute(tx)
    } catch {
      throw error // SQLite gave up the whole transaction (disk full): every unit of it fails, and this is why
    }
    return { kind: 'failed', error }
  }
}

/** Runs units of work one after the other; each is kept whole or not at all. */
export function createGroupCommit(db: Kysely<Tables>) {
  const waiting: Unit[] = []
  let draining = false

  async function commit(units: readonly Unit[]): Promise<void> {
    try {
      const outcomes = await db.transaction().execute(async (tx) => {
        const all: Outcome[] = []
        for (const unit of units) all.push(await behindSavepoint(tx, unit))
        return all
      })
      for (const [index, outcome] of outcomes.entries()) {
        if (outcome.kind === 'done') units[index]?.resolve(outcome.value)
        else units[index]?.reject(outcome.error)
      }
    } catch (error) {
      for (const unit of units) unit.reject(error)
    }
  }

  async function drain(): Promise<void> {
    draining = true
    while (waiting.length > 0) await commit(waiting.splice(0, MOST_IN_A_COMMIT))
    draining = false
  }

  return function write<T>(work: (tx: Transaction<Tables>) => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      waiting.push({ work, resolve: resolve as Unit['resolve'], reject })
      if (!draining) void drain()
    })
  }
}
