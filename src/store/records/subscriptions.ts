/**
 * Who is told of changes of the feed: each subscription that its caller has proved to control, with the job that
 * delivers to it (schema core/notification-config). Paused subscriptions are stored only with their account.
 */
import { type Selectable, sql } from 'kysely'
import type { Seal } from '../database/seal.js'
import type { SqlDialect } from '../database/sql-dialect.js'
import type { Db, SubscriptionTable } from '../database/table-types.js'

/** `at` in ms since the epoch. */
export type Suspension = { reason: string; at: number }

export type StoredSubscription = {
  caller: string
  accountId: string
  subscriberId: string
  job: string
  /** As proved; credentials are left out when they could not be stored. */
  config: Readonly<Record<string, unknown>>
  suspended?: Suspension
}

export type Subscriptions = {
  /** In the order of their creation. */
  ofCaller(caller: string): Promise<StoredSubscription[]>
  byJob(job: string): Promise<StoredSubscription | undefined>
  /** The same for many, in the order of the jobs. */
  byJobs(jobs: readonly string[]): Promise<(StoredSubscription | undefined)[]>
  /** The jobs of all subscriptions that are not suspended. */
  jobs(): Promise<string[]>
  add(subscription: Omit<StoredSubscription, 'suspended'>): Promise<void>
  remove(job: string): Promise<void>
  suspend(job: string, suspension: Suspension): Promise<void>
}

export function createSubscriptionRecords(
  db: Db,
  now: () => number,
  dialect: SqlDialect,
  seal: Seal,
): Subscriptions {
  function fromRow(row: Selectable<SubscriptionTable>): StoredSubscription {
    return {
      ...{ caller: row.caller, accountId: row.account_id, subscriberId: row.subscriber_id, job: row.job },
      config: seal.read(row.config) as StoredSubscription['config'],
      ...(row.suspended !== null && { suspended: JSON.parse(row.suspended) as Suspension }),
    }
  }

  const rows = () => db.selectFrom('subscriptions').selectAll().orderBy('created_at').orderBy('job')

  async function byJobs(jobs: readonly string[]): Promise<(StoredSubscription | undefined)[]> {
    const { rows: found } = await sql<Selectable<SubscriptionTable>>`select subscriptions.*
      from ${dialect.given(jobs.map((job) => ({ job })))} join subscriptions on subscriptions.job = value->>'job'`.execute(
      db,
    )
    const known = new Map(found.map((row) => [row.job, fromRow(row)]))
    return jobs.map((job) => known.get(job))
  }

  return {
    ofCaller: async (caller) => (await rows().where('caller', '=', caller).execute()).map(fromRow),
    byJob: async (job) => (await byJobs([job]))[0],
    byJobs,
    async jobs() {
      const found = await db
        .selectFrom('subscriptions')
        .select('job')
        .where('suspended', 'is', null)
        .execute()
      return found.map(({ job }) => job)
    },
    async add({ caller, accountId, subscriberId, job, config }) {
      await db
        .insertInto('subscriptions')
        .values({
          ...{ caller, account_id: accountId, subscriber_id: subscriberId, job },
          ...{ config: seal.write(config), suspended: null, created_at: now() },
        })
        .execute()
    },
    async remove(job) {
      await db.deleteFrom('subscriptions').where('job', '=', job).execute()
    },
    async suspend(job, suspension) {
      await db
        .updateTable('subscriptions')
        .set({ suspended: JSON.stringify(suspension) })
        .where('job', '=', job)
        .execute()
    },
  }
}
