/**
 * Whether an account that a request names is the caller's. An account that does not exist and one of somebody else
 * get the same answer, byte for byte (DESIGN 5.6; FACTS 2).
 */
import type { AccountReference } from '../adcp/account.js'
import { type AdcpError, adcpError } from '../adcp/error.js'
import type { Caller } from './caller.js'

export type AccountFound = { kind: 'account'; id: string } | { kind: 'refused'; error: AdcpError }

/** The account's id. Natural keys name no account of the configuration, so they are not found. */
export function findAccount(caller: Caller, reference: AccountReference): AccountFound {
  if (caller.role === 'anonymous') {
    const error = adcpError('AUTH_REQUIRED', 'Account prices need credentials.', {
      field: 'account',
      suggestion: 'Send Authorization: Bearer with a key of this agent, or leave account out.',
    })
    return { kind: 'refused', error }
  }
  if ('account_id' in reference && caller.accounts.has(reference.account_id)) {
    return { kind: 'account', id: reference.account_id }
  }
  const error = adcpError('ACCOUNT_NOT_FOUND', 'There is no such account.', {
    field: 'account',
    suggestion: 'Use an account_id from list_accounts, or leave account out for the rate card.',
  })
  return { kind: 'refused', error }
}
