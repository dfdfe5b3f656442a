/** sync_accounts: declares the accounts a caller acts for, and changes their settings (schema account/sync-accounts-request). */
import type { Activation } from '../activation/activation.js'
import { SyncAccountsRequest } from '../adcp/requests/account-requests.js'
import { SyncAccountsResponse } from '../adcp/responses.js'
import type { Task } from './task.js'

export function syncAccounts({
  syncAccounts: sync,
}: Pick<Activation, 'syncAccounts'>): Task<typeof SyncAccountsRequest> {
  return {
    name: 'sync_accounts',
    title: 'Declare accounts',
    description:
      'Declares the accounts you act for (brand, operator, billing) or changes settings of an account you have ' +
      '(account). Each entry has its own result; one that failed says why and changes nothing. notification_configs ' +
      'replaces the whole list; send active false, since webhooks are not delivered yet.',
    request: SyncAccountsRequest,
    response: SyncAccountsResponse,
    mutating: true,
    handle: (input, { caller }) => sync(input, caller),
  }
}
