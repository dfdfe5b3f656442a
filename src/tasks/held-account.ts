/**
 * An account of a caller, as list_accounts shows it and as sync_accounts answers with it (schema core/account): one that the
 * operator configured, with what the caller told about it, or one that the caller declared.
 */
import type { Caller } from '../adcp/caller.js'
import { shownConfig } from '../events/notification-config.js'
import type { StoredAccount, StoredSubscription, Suspension } from '../store/records/accounts.js'

/**
 * RFC 2606: a domain that nobody owns. sync_accounts answers must name a brand, and for a configured account none is
 * known.
 */
export const NO_DOMAIN = 'unknown.invalid'

/** An account of the caller's; `stored` is what the caller told about it. */
export type HeldAccount = {
  id: string
  stored?: StoredAccount
  /** Its subscriptions that are suspended, by subscriber. */
  suspended?: ReadonlyMap<string, Suspension>
}

type Brand = { domain: string; brand_id?: string }

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

function suspensionsOf(subscriptions: readonly StoredSubscription[], accountId: string) {
  return new Map(
    subscriptions.flatMap((one) =>
      one.accountId === accountId && one.suspended ? [[one.subscriberId, one.suspended] as const] : [],
    ),
  )
}

/** The accounts that the operator configured for the caller, by id. */
export function configuredAccounts(caller: Caller, held: (id: string) => HeldAccount): HeldAccount[] {
  return [...caller.accounts.keys()].sort().map(held)
}

/** Gives an account by its id: what is stored of it, if anything is, and its suspended subscriptions. */
export function accountsById(stored: readonly StoredAccount[], subscriptions: readonly StoredSubscription[]) {
  const byId = new Map(stored.map((account) => [account.accountId, account]))
  return (id: string): HeldAccount => {
    const account = byId.get(id)
    if (!account) return { id }
    const suspended = suspensionsOf(subscriptions, id)
    return { id, stored: account, ...(suspended.size > 0 && { suspended }) }
  }
}

/** All accounts of the caller: configured ones by id, then declared ones, oldest first. */
export function heldAccounts(
  caller: Caller,
  stored: readonly StoredAccount[],
  subscriptions: readonly StoredSubscription[],
): HeldAccount[] {
  const held = accountsById(stored, subscriptions)
  const declared = stored.filter(
    ({ accountId, naturalKey: key }) => key !== undefined && !caller.accounts.has(accountId),
  )
  return [...configuredAccounts(caller, held), ...declared.map(({ accountId }) => held(accountId))]
}
