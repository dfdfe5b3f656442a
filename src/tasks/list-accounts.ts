/** list_accounts: the accounts a caller may name in other requests (schema account/list-accounts-request). */
import type { Activation } from '../activation/activation.js'
import { ListAccountsRequest } from '../adcp/requests/account-requests.js'
import { ListAccountsResponse } from '../adcp/responses.js'
import type { Task } from './task.js'

export function listAccounts({
  listAccounts: list,
}: Pick<Activation, 'listAccounts'>): Task<typeof ListAccountsRequest> {
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
