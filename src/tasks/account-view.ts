/** An account as its caller sees it, whether the operator configured it or the caller declared it (schema core/account). */
import type { Caller } from '../adcp/caller.js'
import { shownConfig } from '../events/notification-config.js'
import type { StoredAccount } from '../store/records/accounts.js'
import type { StoredSubscription, Suspension } from '../store/records/subscriptions.js'

/** An account of the caller's; `stored` is what the caller told about it. */
export type HeldAccount = {
  id: string
  stored?: StoredAccount
  /** Its subscriptions that are suspended, by subscriber. */
  suspended?: ReadonlyMap<string, Suspension>
}

type Brand = { domain: string; brand_id?: string }

/**
 * RFC 2606: a domain that nobody owns. sync_accounts answers must name a brand, and for a configured account none is
 * known.
 */
export const NO_DOMAIN = 'unknown.invalid'

/** A name for people: the brand, and who operates it where that is another. */
export function accountName({ id, stored }: HeldAccount): string {
  const { brand, operator } = (stored?.settings ?? {}) as { brand?: Brand; operator?: string }
  if (!brand) return id
  const name = brand.brand_id === undefined ? brand.domain : `${brand.domain} (${brand.brand_id})`
  return brand.domain === operator ? name : `${name} c/o ${operator}`
}

/** What the caller told, and its subscriptions without their credentials: none is told as an empty set. */
export function accountSettings({ stored, suspended }: HeldAccount): Record<string, unknown> {
  if (!stored) return {}
  const shown = stored.notificationConfigs.map((config) =>
    shownConfig(config, suspended?.get(String(config.subscriber_id))),
  )
  return { ...stored.settings, notification_configs: shown }
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

function suspensionsOf(subscriptions: readonly StoredSubscription[], accountId: string) {
  return new Map(
    subscriptions.flatMap((one) =>
      one.accountId === accountId && one.suspended ? [[one.subscriberId, one.suspended] as const] : [],
    ),
  )
}

/** All accounts of the caller: configured ones by id, then declared ones, oldest first. */
export function heldAccounts(
  principal: Caller,
  stored: readonly StoredAccount[],
  subscriptions: readonly StoredSubscription[],
): HeldAccount[] {
  const byId = new Map(stored.map((account) => [account.accountId, account]))
  const heldAs = (id: string, account: StoredAccount): HeldAccount => {
    const suspended = suspensionsOf(subscriptions, id)
    return { id, stored: account, ...(suspended.size > 0 && { suspended }) }
  }
  const configured = [...principal.accounts.keys()].sort().map((id): HeldAccount => {
    const told = byId.get(id)
    return told ? heldAs(id, told) : { id }
  })
  const declared = stored.filter(({ naturalKey }) => naturalKey !== undefined)
  return [...configured, ...declared.map((account) => heldAs(account.accountId, account))]
}
