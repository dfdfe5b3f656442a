/**
 * What callers told us about their accounts, keyed by caller: the accounts that they declared (brand and operator), settings of those
 * that the operator configured (schemas account/sync-accounts, account/list-accounts), and who is told of changes of the feed: each
 * subscription that its caller has proved to control, with the job that delivers to it (schema core/notification-config). Paused
 * subscriptions are stored only with their account.
 */
import { type Expression, type ExpressionBuilder, type Selectable, type SqlBool, sql } from 'kysely'
import type { AccountTable, Db, SqlDialect, SubscriptionTable, Tables } from '../database/database.js'
import type { Seal } from '../database/seal.js'

/** enums/account-status */
export const ACCOUNT_STATUSES = [
  'active',
  'pending_approval',
  'rejected',
  'payment_required',
  'suspended',
  'closed',
] as const
export type AccountStatus = (typeof ACCOUNT_STATUSES)[number]

export type StoredAccount = {
  caller: string
  accountId: string
  /** Canonical JSON of brand, operator and sandbox; absent for an account the operator configured. */
  naturalKey?: string
  /** Fields of the account as declared: brand, operator, billing and so on. */
  settings: Readonly<Record<string, unknown>>
  status: AccountStatus
  /** As sent, with credentials: they are used for delivery and never shown. */
  notificationConfigs: readonly Readonly<Record<string, unknown>>[]
}

/** Which declared accounts are meant: those for which every member that is there holds. */
export type AccountFilter = {
  accountId?: string
  naturalKey?: string
  status?: string
  sandbox?: boolean
  /** Ids of accounts that are left out. */
  without: readonly string[]
}

/** At most `limit` accounts, those that come after the account `after`. */
type AccountPage = { after?: string; limit: number }

export type Accounts = {
  get(caller: string, accountId: string): Promise<StoredAccount | undefined>
  /** The same for many, in their order. */
  getAll(
    wanted: readonly Pick<StoredAccount, 'caller' | 'accountId'>[],
  ): Promise<(StoredAccount | undefined)[]>
  byNaturalKey(caller: string, naturalKey: string): Promise<StoredAccount | undefined>
  /** All accounts of the caller, oldest first. */
  list(caller: string): Promise<StoredAccount[]>
  /** A page of the declared accounts that match, oldest first, and how many match in all. */
  declared(
    caller: string,
    filter: AccountFilter,
    page: AccountPage,
  ): Promise<{ accounts: StoredAccount[]; total: number }>
  put(account: StoredAccount): Promise<void>
}

/**
 * The natural key of a sandbox account: it is JSON with its members in alphabetical order, so this one is the last, and no text in
 * it can end like this, because quotes are escaped there.
 */
const OF_SANDBOX = '%,"sandbox":true}'

function matching(caller: string, { accountId, naturalKey, status, sandbox, without }: AccountFilter) {
  return (eb: ExpressionBuilder<Tables, 'accounts'>) => {
    const conditions: Expression<SqlBool>[] = [eb('caller', '=', caller), eb('natural_key', 'is not', null)]
    if (without.length > 0) conditions.push(eb('account_id', 'not in', without))
    if (accountId !== undefined) conditions.push(eb('account_id', '=', accountId))
    if (naturalKey !== undefined) conditions.push(eb('natural_key', '=', naturalKey))
    if (status !== undefined) conditions.push(eb('status', '=', status))
    if (sandbox !== undefined) conditions.push(eb('natural_key', sandbox ? 'like' : 'not like', OF_SANDBOX))
    return eb.and(conditions)
  }
}

export function createAccounts(db: Db, now: () => number, dialect: SqlDialect, seal: Seal): Accounts {
  function fromRow(row: Selectable<AccountTable>): StoredAccount {
    return {
      caller: row.caller,
      accountId: row.account_id,
      ...(row.natural_key !== null && { naturalKey: row.natural_key }),
      settings: JSON.parse(row.settings) as StoredAccount['settings'],
      status: row.status as StoredAccount['status'],
      notificationConfigs: seal.read(row.notification_configs) as StoredAccount['notificationConfigs'],
    }
  }

  async function getAll(wanted: readonly Pick<StoredAccount, 'caller' | 'accountId'>[]) {
    const given = wanted.map(({ caller, accountId }, place) => ({ caller, accountId, place }))
    const { rows } = await sql<Selectable<AccountTable> & { place: number }>`select accounts.*,
        cast(value->>'place' as integer) as place
      from ${dialect.given(given)} join accounts
        on accounts.caller = value->>'caller' and accounts.account_id = value->>'accountId'`.execute(db)
    const found = new Map(rows.map((row) => [row.place, fromRow(row)]))
    return wanted.map((_, place) => found.get(place))
  }

  async function byNaturalKey(caller: string, naturalKey: string): Promise<StoredAccount | undefined> {
    const row = await db
      .selectFrom('accounts')
      .selectAll()
      .where('caller', '=', caller)
      .where('natural_key', '=', naturalKey)
      .executeTakeFirst()
    return row && fromRow(row)
  }

  async function list(caller: string): Promise<StoredAccount[]> {
    const rows = await db
      .selectFrom('accounts')
      .selectAll()
      .where('caller', '=', caller)
      .orderBy('created_at')
      .orderBy('account_id')
      .execute()
    return rows.map(fromRow)
  }

  async function declared(caller: string, filter: AccountFilter, { after, limit }: AccountPage) {
    const matches = matching(caller, filter)
    const counted = await db
      .selectFrom('accounts')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where(matches)
      .executeTakeFirstOrThrow()
    const isLater = sql<boolean>`(created_at, account_id) > (select one.created_at, one.account_id from accounts as one
      where one.caller = ${caller} and one.account_id = ${after})`
    const rows = await db
      .selectFrom('accounts')
      .selectAll()
      .where(matches)
      .$if(after !== undefined, (query) => query.where(isLater))
      .orderBy('created_at')
      .orderBy('account_id')
      .limit(limit)
      .execute()
    return { accounts: rows.map(fromRow), total: Number(counted.count) }
  }

  async function put(account: StoredAccount): Promise<void> {
    const at = now()
    const settable = {
      settings: JSON.stringify(account.settings),
      status: account.status,
      notification_configs: seal.write(account.notificationConfigs),
      updated_at: at,
    }
    await db
      .insertInto('accounts')
      .values({
        caller: account.caller,
        account_id: account.accountId,
        natural_key: account.naturalKey ?? null,
        created_at: at,
        ...settable,
      })
      .onConflict((conflict) => conflict.columns(['caller', 'account_id']).doUpdateSet(settable))
      .execute()
  }

  return {
    get: async (caller, accountId) => (await getAll([{ caller, accountId }]))[0],
    getAll,
    byNaturalKey,
    list,
    declared,
    put,
  }
}

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
  /** In the order of the jobs. */
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
