/**
 * The accounts of a caller while the entries of a sync_accounts request change them, one after the other: each entry sees what
 * those before it changed. Each account is found at once, because there may be ten thousand.
 */
import type { StoredAccount } from '../store/records/accounts.js'
import type { HeldAccount } from './held-account.js'

export function createHoldings(accounts: readonly HeldAccount[]) {
  const byId = new Map(accounts.map((account) => [account.id, account]))
  const byKey = new Map<string, HeldAccount>()
  const note = (account: HeldAccount) => {
    if (account.stored?.naturalKey !== undefined) byKey.set(account.stored.naturalKey, account)
  }
  accounts.forEach(note)
  return {
    count: () => byId.size,
    withId: (id: string) => byId.get(id),
    /** The declared account of this natural key. */
    withKey: (key: string) => byKey.get(key),
    /** Declared accounts that are open and not named: delete_missing closes them. */
    missing(named: ReadonlySet<string>): StoredAccount[] {
      return [...byId.values()].flatMap(({ id, stored }) =>
        stored?.naturalKey === undefined || stored.status === 'closed' || named.has(id) ? [] : stored,
      )
    },
    /** In the place of the one with its id, if there is one. */
    put(account: HeldAccount): HeldAccount {
      byId.set(account.id, account)
      note(account)
      return account
    },
  }
}

export type Holdings = ReturnType<typeof createHoldings>
