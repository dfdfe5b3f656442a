/**
 * list_accounts: the caller's accounts, those the operator configured and those the caller declared (schema
 * account/list-accounts).
 */

import { naturalKey } from '../activation/own-account.js'
import { storageDown } from '../activation/refusals.js'
import { type Answer, howMany, refuse } from '../adcp/answer.js'
import type { AccountReference, Caller } from '../adcp/caller.js'
import { ListAccountsRequest } from '../adcp/requests/account-requests.js'
import { ListAccountsResponse } from '../adcp/responses.js'
import { plainCursors } from '../feed/cursor.js'
import { StorageUnavailable } from '../store/database/unavailable.js'
import type { Store } from '../store/store.js'
import { accountView, type HeldAccount, heldAccounts } from './account-view.js'
import type { Task } from './task.js'

const PAGE = 50
const LARGEST_PAGE = 100

function names(reference: AccountReference, { id, stored }: HeldAccount): boolean {
  if ('account_id' in reference) return reference.account_id === id
  return stored?.naturalKey === naturalKey(reference)
}

/** A cursor names the account that its page begins after. */
const CURSORS = plainCursors('accounts')

export function listAccounts({ store }: { store: Store }): Task<typeof ListAccountsRequest> {
  async function list(request: ListAccountsRequest, principal: Caller): Promise<Answer> {
    const { account, status, sandbox, pagination = {} } = request
    let held: HeldAccount[]
    try {
      const subscriptions = await store.subscriptions.ofCaller(principal.id)
      held = heldAccounts(principal, await store.accounts.list(principal.id), subscriptions)
    } catch (error) {
      if (error instanceof StorageUnavailable) return storageDown()
      throw error
    }
    const matching = held.filter((one) => {
      if (account && !names(account, one)) return false
      if (status !== undefined && status !== (one.stored?.status ?? 'active')) return false
      return sandbox === undefined || sandbox === (one.stored?.settings.sandbox === true)
    })
    const after = pagination.cursor === undefined ? undefined : CURSORS.read(pagination.cursor)
    const start = after === undefined ? 0 : matching.findIndex(({ id }) => id === after) + 1
    if (pagination.cursor !== undefined && start === 0) {
      return refuse('INVALID_REQUEST', 'This cursor is not one of list_accounts.', {
        field: 'pagination.cursor',
        suggestion: 'Restart from the first page, without a cursor.',
      })
    }
    const page = matching.slice(start, start + Math.min(pagination.max_results ?? PAGE, LARGEST_PAGE))
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
    handle: (input, { caller }) => list(input, caller),
  }
}
