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
import type {
  AccountFilter,
  StoredAccount,
  StoredSubscription,
  Suspension,
} from '../store/records/accounts.js'
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

/** The accounts that the operator configured for the caller, by id. */
function configuredAccounts(caller: Caller, held: (id: string) => HeldAccount): HeldAccount[] {
  return [...caller.accounts.keys()].sort().map(held)
}

/** Gives an account by its id: what is stored of it, if anything is, and its suspended subscriptions. */
function accountsById(stored: readonly StoredAccount[], subscriptions: readonly StoredSubscription[]) {
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

function namedBy(reference: AccountReference): (account: HeldAccount) => boolean {
  if ('account_id' in reference) return ({ id }) => reference.account_id === id
  const key = naturalKey(reference)
  return ({ stored }) => stored?.naturalKey === key
}

type Asked = Pick<ListAccountsRequest, 'account' | 'status' | 'sandbox'>

function isAsked({ account, status, sandbox }: Asked): (account: HeldAccount) => boolean {
  const isNamed = account ? namedBy(account) : () => true
  return (one) =>
    isNamed(one) &&
    (status === undefined || status === (one.stored?.status ?? 'active')) &&
    (sandbox === undefined || sandbox === (one.stored?.settings.sandbox === true))
}

function filterOf({ account, status, sandbox }: Asked, { accounts }: Caller): AccountFilter {
  return {
    without: [...accounts.keys()],
    ...(account &&
      ('account_id' in account ? { accountId: account.account_id } : { naturalKey: naturalKey(account) })),
    ...(status !== undefined && { status }),
    ...(sandbox !== undefined && { sandbox }),
  }
}

export function listAccounts({ store }: { store: Store }): Task<typeof ListAccountsRequest> {
  async function configuredOf(caller: Caller, subscriptions: readonly StoredSubscription[]) {
    const wanted = [...caller.accounts.keys()].map((accountId) => ({ caller: caller.id, accountId }))
    const found = wanted.length > 0 ? await store.accounts.getAll(wanted) : []
    const stored = found.flatMap((one) => one ?? [])
    return configuredAccounts(caller, accountsById(stored, subscriptions))
  }

  async function isDeclared(caller: Caller, id: string): Promise<boolean> {
    return (await store.accounts.get(caller.id, id))?.naturalKey !== undefined
  }

  /** A caller may have thousands of declared accounts: no more of them are read than are shown. */
  async function list(request: ListAccountsRequest, caller: Caller): Promise<Answer> {
    const { pagination = {} } = request
    const { cursor: given } = pagination
    const limit = rowsOfPage(pagination)
    const after = given === undefined ? undefined : CURSORS.read(given)
    if (given !== undefined && after === undefined) return foreignCursor('list_accounts')
    const isAfterDeclared = after !== undefined && !caller.accounts.has(after)
    if (isAfterDeclared && !(await isDeclared(caller, after))) return foreignCursor('list_accounts')
    const subscriptions = await store.subscriptions.ofCaller(caller.id)
    const configured = (await configuredOf(caller, subscriptions)).filter(isAsked(request))
    const first = isAfterDeclared ? [] : configured.filter(({ id }) => after === undefined || id > after)
    const shown = first.slice(0, limit)
    const declared = await store.accounts.declared(caller.id, filterOf(request, caller), {
      ...(isAfterDeclared && { after }),
      limit: limit - shown.length + 1, // one more tells whether there is another page
    })
    const held = accountsById(declared.accounts, subscriptions)
    const following = declared.accounts.slice(0, limit - shown.length).map(({ accountId }) => held(accountId))
    const page = [...shown, ...following]
    const more = first.length + declared.accounts.length > page.length
    const cursor = more && CURSORS.write(page.at(-1)?.id ?? '')
    const total = configured.length + declared.total
    return {
      kind: 'answer',
      message: `${page.length} of ${howMany(total, 'account')}.`,
      fields: {
        accounts: page.map(accountView),
        pagination: { has_more: more, ...(cursor && { cursor }), total_count: total },
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
