/**
 * list_accounts: the caller's accounts, those the operator configured and those the caller declared (schema
 * account/list-accounts). An account is named and shown here as sync_accounts answers with it, too (schema core/account).
 */
import { naturalKey } from '../activation/accounts.js'
import { unlessStorageDown } from '../activation/activation.js'
import { type Answer, howMany } from '../adcp/answer.js'
import type { AccountReference, Caller } from '../adcp/caller.js'
import { ListAccountsRequest, ListAccountsResponse } from '../adcp/task-schemas.js'
import { shownConfig } from '../events/notification-config.js'
import { plainCursors } from '../feed/cursor.js'
import type { StoredAccount, StoredSubscription, Suspension } from '../store/records/accounts.js'
import type { Store } from '../store/store.js'
import { foreignCursor, rowsOfPage } from './list-tasks.js'
import type { Task } from './task.js'

/**
 * RFC 2606: a domain that nobody owns. sync_accounts answers must name a brand, and for a configured account none is
 * known.
 */
export const NO_DOMAIN = 'unknown.invalid'

/** A cursor names the account that its page begins after. */
const CURSORS = plainCursors('accounts')

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

/** The account as list_accounts shows it. */
function accountView(account: HeldAccount): Record<string, unknown> & { status: string } {
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
  caller: Caller,
  stored: readonly StoredAccount[],
  subscriptions: readonly StoredSubscription[],
): HeldAccount[] {
  const byId = new Map(stored.map((account) => [account.accountId, account]))
  const heldAs = (id: string, account: StoredAccount): HeldAccount => {
    const suspended = suspensionsOf(subscriptions, id)
    return { id, stored: account, ...(suspended.size > 0 && { suspended }) }
  }
  const configured = [...caller.accounts.keys()].sort().map((id): HeldAccount => {
    const told = byId.get(id)
    return told ? heldAs(id, told) : { id }
  })
  const declared = stored.filter(({ naturalKey }) => naturalKey !== undefined)
  return [...configured, ...declared.map((account) => heldAs(account.accountId, account))]
}

function namedBy(reference: AccountReference): (account: HeldAccount) => boolean {
  if ('account_id' in reference) return ({ id }) => reference.account_id === id
  const key = naturalKey(reference)
  return ({ stored }) => stored?.naturalKey === key
}

export function listAccounts({ store }: { store: Store }): Task<typeof ListAccountsRequest> {
  async function list(request: ListAccountsRequest, caller: Caller): Promise<Answer> {
    const { account, status, sandbox, pagination = {} } = request
    const subscriptions = await store.subscriptions.ofCaller(caller.id)
    const held = heldAccounts(caller, await store.accounts.list(caller.id), subscriptions)
    const isNamed = account ? namedBy(account) : () => true
    const matching = held.filter((one) => {
      if (!isNamed(one)) return false
      if (status !== undefined && status !== (one.stored?.status ?? 'active')) return false
      return sandbox === undefined || sandbox === (one.stored?.settings.sandbox === true)
    })
    const after = pagination.cursor === undefined ? undefined : CURSORS.read(pagination.cursor)
    const start = after === undefined ? 0 : matching.findIndex(({ id }) => id === after) + 1
    if (pagination.cursor !== undefined && start === 0) return foreignCursor('list_accounts')
    const page = matching.slice(start, start + rowsOfPage(pagination))
    const more = start + page.length < matching.length
    const cursor = more && CURSORS.write(page.at(-1)?.id ?? '')
    return {
      kind: 'answer',
      message: `${page.length} of ${howMany(matching.length, 'account')}.`,
      fields: {
        accounts: page.map(accountView),
        pagination: { has_more: more, ...(cursor && { cursor }), total_count: matching.length },
      },
    }
  }

  return {
    name: 'list_accounts',
    title: 'List your accounts',
    description:
      'Lists the accounts you may name as account in get_signals, activate_signal and report_usage, with their ' +
      'status and webhook subscriptions.',
    request: ListAccountsRequest,
    response: ListAccountsResponse,
    mutating: false,
    handle: (input, { caller }) => unlessStorageDown(() => list(input, caller)),
  }
}
