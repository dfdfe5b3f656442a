/**
 * One entry of a sync_accounts request: which account it is about, what that account becomes, and the result that is told of it
 * (schemas account/sync-accounts).
 */
import { accountIdOf, naturalKey } from '../activation/accounts.js'
import { type AdcpError, adcpError } from '../adcp/answer.js'
import type { Caller } from '../adcp/caller.js'
import { nearest } from '../adcp/issue-words.js'
import type { SyncAccountsRequest } from '../adcp/task-schemas.js'
import type { NotificationConfig } from '../events/notification-config.js'
import type { StoredAccount } from '../store/records/accounts.js'
import { canonical } from '../store/records/idempotency.js'
import type { Holdings } from './account-holdings.js'
import { accountName, accountSettings, type HeldAccount, NO_DOMAIN } from './held-account.js'

const MAX_ACCOUNTS = 10_000 // a caller's declared accounts

/** As get_adcp_capabilities says (`account.supported_billing`). */
const BILLING: ReadonlySet<string> = new Set(['operator', 'agent'])

/** What an entry that declares an account has, and one that changes settings must not have. */
const DECLARING = ['brand', 'operator', 'billing'] as const

type AccountEntry = SyncAccountsRequest['accounts'][number]

export type EntryResult = Record<string, unknown>
type Target = { id: string; naturalKey?: string; stored?: StoredAccount; declared: Record<string, unknown> }

/** Bank details are write-only in the protocol, and this agent pays nobody: they are not kept at all. */
function withoutBank(entity: Record<string, unknown>): Record<string, unknown> {
  const { bank: _, ...rest } = entity
  return rest
}

function settable({ billing_entity, payment_terms }: AccountEntry): Record<string, unknown> {
  return {
    ...(billing_entity && { billing_entity: withoutBank(billing_entity) }),
    ...(payment_terms !== undefined && { payment_terms }),
  }
}

/** What the caller should know of an entry that was taken. `brand`: of the account's owner; undefined where none is known. */
export function entryWarnings(entry: AccountEntry, request: SyncAccountsRequest, brand: unknown): string[] {
  return [
    ...(brand === undefined
      ? [`This agent does not know the brand and operator of this account: ${NO_DOMAIN} stands for them.`]
      : []),
    ...(entry.payment_terms === undefined
      ? []
      : [
          'payment_terms are kept as you sent them; invoices come from the upstreams, on the terms agreed with each.',
        ]),
    ...(request.push_notification_config === undefined
      ? []
      : ['push_notification_config is not used: the status told here is final.']),
  ]
}

/** The account that an entry is about; an error when the caller has no such account. */
export function entryTarget(entry: AccountEntry, caller: Caller, held: Holdings): Target | AdcpError {
  const { account, brand, operator, billing } = entry
  const declares = DECLARING.find((name) => entry[name] !== undefined)
  if (account && declares) {
    const message = 'An entry changes settings (account) or declares, not both.'
    const suggestion = `Leave ${DECLARING.join(', ')} out to change settings, or account to declare.`
    return adcpError('INVALID_REQUEST', message, { field: declares, suggestion })
  }
  if (account) {
    const found =
      'account_id' in account ? held.withId(account.account_id) : held.withKey(naturalKey(account))
    if (!found) {
      const suggestion = 'Take an account of list_accounts, or declare it with brand, operator and billing.'
      return adcpError('ACCOUNT_NOT_FOUND', 'There is no such account.', { field: 'account', suggestion })
    }
    const { id, stored } = found
    return {
      id,
      ...(stored && { stored }),
      ...(stored?.naturalKey && { naturalKey: stored.naturalKey }),
      declared: {},
    }
  }
  const absent = DECLARING.find((name) => entry[name] === undefined)
  if (!brand || operator === undefined || billing === undefined) {
    const message = 'An entry has either account, or brand, operator and billing.'
    const suggestion = `Send ${absent} too, or account alone.`
    return adcpError('INVALID_REQUEST', message, { field: absent ?? 'brand', suggestion })
  }
  if (!BILLING.has(billing)) {
    const [near] = nearest(billing, BILLING)
    const suggestion = near ? `Did you mean "${near}"?` : `Send billing as ${[...BILLING].join(' or ')}.`
    const message = 'This agent supports operator and agent billing.'
    const details = { scope: 'capability', supported_billing: [...BILLING] }
    return adcpError('BILLING_NOT_SUPPORTED', message, { field: 'billing', suggestion, details })
  }
  const key = naturalKey({ brand, operator, sandbox: entry.sandbox })
  const stored = held.withKey(key)?.stored
  const id = stored?.accountId ?? accountIdOf(caller.id, key)
  if (!stored && held.count() >= MAX_ACCOUNTS) {
    const suggestion = 'Close accounts that you no longer use: sync_accounts with delete_missing.'
    const message = `You have ${MAX_ACCOUNTS} accounts: no more can be declared.`
    return adcpError('INVALID_REQUEST', message, { field: 'brand', suggestion })
  }
  const declared = { brand, operator, billing, ...(entry.sandbox === true && { sandbox: true }) }
  return { id, naturalKey: key, ...(stored && { stored }), declared }
}

/** The row was rejected; an account that stands stays as it was. `field` is a place in the row (docs/protocol.md#accounts). */
export function failedResult(entry: AccountEntry, errors: readonly AdcpError[]): EntryResult {
  const named = entry.account && 'operator' in entry.account ? entry.account : entry
  return {
    ...(entry.account && 'account_id' in entry.account && { account_id: entry.account.account_id }),
    brand: named.brand ?? { domain: NO_DOMAIN },
    operator: named.operator ?? NO_DOMAIN,
    action: 'failed',
    status: 'rejected',
    errors,
  }
}

export function accountResult(
  held: HeldAccount,
  action: 'created' | 'updated' | 'unchanged',
  warnings: readonly string[],
): EntryResult {
  return {
    ...{ brand: { domain: NO_DOMAIN }, operator: NO_DOMAIN },
    account_id: held.id,
    name: accountName(held),
    action,
    status: held.stored?.status ?? 'active',
    ...accountSettings(held),
    ...(warnings.length > 0 && { warnings }),
  }
}

/** The account after the entry; the same object when nothing changes. */
export function accountAfter(
  target: Target,
  entry: AccountEntry,
  configs: readonly NotificationConfig[] | undefined,
  caller: string,
): StoredAccount {
  const { id, stored, declared } = target
  const next: StoredAccount = {
    caller,
    accountId: id,
    ...(target.naturalKey !== undefined && { naturalKey: target.naturalKey }),
    settings: { ...stored?.settings, ...declared, ...settable(entry) },
    status: !entry.account && stored?.status === 'closed' ? 'active' : (stored?.status ?? 'active'), // declaring opens again
    notificationConfigs: configs ?? stored?.notificationConfigs ?? [],
  }
  return stored && canonical(stored) === canonical(next) ? stored : next
}
