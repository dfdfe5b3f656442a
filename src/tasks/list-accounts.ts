/** list_accounts: the caller's accounts, those the operator configured and those the caller declared (schema account/list-accounts). */
import { naturalKey } from '../activation/accounts.js'
import { unlessStorageDown } from '../activation/activation.js'
import { type Answer, howMany } from '../adcp/answer.js'
import type { AccountReference, Caller } from '../adcp/caller.js'
import { BAD_CURSOR } from '../adcp/signal-requests.js'
import { ListAccountsRequest, ListAccountsResponse } from '../adcp/task-schemas.js'
import { createListCursors } from '../feed/cursor.js'
import type { AccountFilter, StoredSubscription } from '../store/records/accounts.js'
import {
  accountName,
  accountSettings,
  accountsById,
  configuredAccounts,
  type HeldAccount,
} from './held-account.js'
import { type ListOptions, rowsOfPage } from './list-tasks.js'
import type { Task } from './task.js'

/** The account as list_accounts shows it. */
function accountView(account: HeldAccount): Record<string, unknown> & { status: string } {
  return {
    account_id: account.id,
    name: accountName(account),
    status: account.stored?.status ?? 'active',
    ...accountSettings(account),
  }
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

function filterOf({ account, status, sandbox }: Asked): Omit<AccountFilter, 'without'> {
  return {
    ...(account &&
      ('account_id' in account ? { accountId: account.account_id } : { naturalKey: naturalKey(account) })),
    ...(status !== undefined && { status }),
    ...(sandbox !== undefined && { sandbox }),
  }
}

export function listAccounts({ store, secret }: ListOptions): Task<typeof ListAccountsRequest> {
  /** They name the account that their page begins after. */
  const cursors = createListCursors(secret, 'accounts')

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
    const filter = filterOf(request)
    const after = given === undefined ? undefined : cursors.read(given, filter, caller.id)
    const isAfterDeclared = after !== undefined && !caller.accounts.has(after)
    const isGone = isAfterDeclared && !(await isDeclared(caller, after))
    if (isGone || (given !== undefined && after === undefined)) return { kind: 'refused', error: BAD_CURSOR }
    const subscriptions = await store.subscriptions.ofCaller(caller.id)
    const configured = (await configuredOf(caller, subscriptions)).filter(isAsked(request))
    const first = isAfterDeclared ? [] : configured.filter(({ id }) => after === undefined || id > after)
    const shown = first.slice(0, limit)
    const wanted = { ...filter, without: [...caller.accounts.keys()] }
    const declared = await store.accounts.declared(caller.id, wanted, {
      ...(isAfterDeclared && { after }),
      limit: limit - shown.length + 1, // one more tells whether there is another page
    })
    const held = accountsById(declared.accounts, subscriptions)
    const following = declared.accounts.slice(0, limit - shown.length).map(({ accountId }) => held(accountId))
    const page = [...shown, ...following]
    const more = first.length + declared.accounts.length > page.length
    const cursor = more && cursors.write(page.at(-1)?.id ?? '', filter, caller.id)
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
