/** Jobs that have not ended, as operators look at them: without their data, which only whoever carries a job out reads. */
import { sql } from 'kysely'
import type { SqlDialect } from '../database/sql-dialect.js'
import type { Db } from '../database/table-types.js'

type OpenJob = {
  id: string
  kind: string
  lane: string
  caller: string
  attempts: number
  /** A process works on it now. */
  isHeld: boolean
  /** When it may be claimed, or when the lease of its holder ends: ms from now, negative when that is past. */
  dueInMs: number
  createdAt: number
}

export type OpenJobs = {
  /** Those that failed most often first; standing ones (one for each subscription to the feed) after all others. */
  list(limit: number): Promise<OpenJob[]>
  /** Undefined when it has ended, or never was. */
  get(id: string): Promise<OpenJob | undefined>
}

const STANDING = 'feed_events'
const NO_WORK = 'turn' // says which process does the work of all; there is nothing in it to be done

export function createOpenJobs(db: Db, dialect: SqlDialect): OpenJobs {
  const open = () =>
    db
      .selectFrom('jobs')
      .select(['id', 'kind', 'lane', 'caller', 'attempts', 'owner', 'created_at'])
      .select(sql<number>`due - ${dialect.now()}`.as('due_in'))
      .where('due', 'is not', null)
      .where('kind', '<>', NO_WORK)
  type Row = Awaited<ReturnType<ReturnType<typeof open>['execute']>>[number]

  function fromRow({ id, kind, lane, caller, attempts, owner, due_in, created_at }: Row): OpenJob {
    const dueInMs = Number(due_in)
    return {
      ...{ id, kind, lane, caller, attempts, dueInMs },
      isHeld: owner !== null && dueInMs > 0,
      createdAt: Number(created_at),
    }
  }

  return {
    async list(limit) {
      const rows = await open()
        .orderBy(sql`case when kind = ${STANDING} then 1 else 0 end`)
        .orderBy('attempts', 'desc')
        .orderBy('seq')
        .limit(limit)
        .execute()
      return rows.map(fromRow)
    },
    async get(id) {
      const row = await open().where('id', '=', id).executeTakeFirst()
      return row && fromRow(row)
    },
  }
}
