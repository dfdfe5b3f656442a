/** An account as its caller sees it, whether the operator configured it or the caller declared it (schema core/account). */
import type { Caller } from '../adcp/caller.js'
import { shownConfig } from '../events/notification-config.js'
import type { StoredAccount } from '../store/records/accounts.js'

/** An account of the caller's; `stored` is what the caller told about it. */
export type HeldAccount = { id: string; stored?: StoredAccount }

type Brand = { domain: string; brand_id?: string }

/** RFC 2606: a domain nobody has. sync_accounts answers must name a brand; of a configured account none is known. */
export const NO_DOMAIN = 'unknown.invalid'

export function accountName({ id, stored }: HeldAccount): string {
  const { brand, operator } = (stored?.settings ?? {}) as { brand?: Brand; operator?: string }
  if (!brand) return id
  const name = brand.brand_id === undefined ? brand.domain : `${brand.domain} (${brand.brand_id})`
  return brand.domain === operator ? name : `${name} c/o ${operator}`
}

/** What the caller told, and its subscriptions without their credentials: none is told as an empty set. */
export function accountSettings({ stored }: HeldAccount): Record<string, unknown> {
  return stored
    ? { ...stored.settings, notification_configs: stored.notificationConfigs.map(shownConfig) }
    : {}
}

/** The account as list_accounts shows it. */
export function accountView(account: HeldAccount): Record<string, unknown> & { status: string } {
  return {
    account_id: account.id,
    name: accountName(account),
    status: account.stored?.status ?? 'active',
    ...accountSettings(account),
  }
}

/** All accounts of the caller: configured ones by id, then declared ones, oldest first. */
export function heldAccounts(principal: Caller, stored: readonly StoredAccount[]): HeldAccount[] {
  const byId = new Map(stored.map((account) => [account.accountId, account]))
  const configured = [...principal.accounts.keys()].sort().map((id): HeldAccount => {
    const told = byId.get(id)
    return told ? { id, stored: told } : { id }
  })
  const declared = stored.filter(({ naturalKey }) => naturalKey !== undefined)
  return [...configured, ...declared.map((account) => ({ id: account.accountId, stored: account }))]
}
