/**
 * What callers told us about their accounts: the ones that they declared (brand and operator), and settings of those
 * that the operator configured (schemas account/sync-accounts, account/list-accounts). Keyed by caller.
 */
import { type Selectable, sql } from 'kysely'
import type { Seal } from '../database/seal.js'
import type { SqlDialect } from '../database/sql-dialect.js'
import type { AccountTable, Db } from '../database/table-types.js'

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

export type Accounts = {
  get(caller: string, accountId: string): Promise<StoredAccount | undefined>
  /** The same for many, in their order. */
  getAll(
    wanted: readonly Pick<StoredAccount, 'caller' | 'accountId'>[],
  ): Promise<(StoredAccount | undefined)[]>
  byNaturalKey(caller: string, naturalKey: string): Promise<StoredAccount | undefined>
  /** All accounts of the caller, oldest first. */
  list(caller: string): Promise<StoredAccount[]>
  put(account: StoredAccount): Promise<void>
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
    put,
  }
}
