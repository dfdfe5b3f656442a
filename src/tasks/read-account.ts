/**
 * Who reads the feed: a caller, or a caller with an account that the request names and that is the caller's. An account
 * that does not exist and one of somebody else get the same answer, byte for byte (docs/decisions.md#callers;
 * docs/protocol.md#envelope).
 */
import { type Refused, refuse } from '../adcp/answer.js'
import type { AccountReference, Caller } from '../adcp/caller.js'
import { overlayName } from '../config/callers.js'
import type { Reader } from '../feed/query.js'

export type AccountFound =
  /** `overlay`: the layer of the feed that may hold prices of its own; without one the rate card is the account's. */
  { kind: 'account'; overlay?: string } | Refused

/** Whether the caller declared this account id to us, with sync_accounts. */
export type DeclaredAccounts = (callerId: string, accountId: string) => Promise<boolean>

const NEEDS_CREDENTIALS: AccountFound = refuse('AUTH_REQUIRED', 'Account prices need credentials.', {
  field: 'account',
  suggestion: 'Send Authorization: Bearer with a key of this agent, or leave account out.',
})

const NOT_FOUND: AccountFound = refuse('ACCOUNT_NOT_FOUND', 'There is no such account.', {
  field: 'account',
  suggestion: 'Use an account_id from list_accounts, or leave account out for the rate card.',
})

/**
 * The account of a read. A natural key (brand, operator) is the caller's own word for itself: no prices are configured
 * for it, so it reads the rate card, as an account declared to us does.
 */
export function findAccount(
  caller: Caller,
  reference: AccountReference,
  declared: DeclaredAccounts,
): AccountFound | Promise<AccountFound> {
  if (caller.role === 'anonymous') return NEEDS_CREDENTIALS
  if (!('account_id' in reference)) return { kind: 'account' }
  const { account_id: id } = reference
  if (caller.accounts.has(id)) return { kind: 'account', overlay: overlayName(caller.id, id) }
  return declared(caller.id, id).then((isOwn) => (isOwn ? { kind: 'account' } : NOT_FOUND))
}

/** The reader of the feed: one object per caller, release and account. */
export function createReaders() {
  const known = new WeakMap<Caller, Map<string, Reader>>()
  return (caller: Caller, wholeOnly: boolean, account: string | undefined): Reader => {
    const ofCaller = known.get(caller) ?? new Map<string, Reader>()
    known.set(caller, ofCaller)
    const name = `${wholeOnly ? 'whole' : 'all'} ${account ?? ''}`
    const found = ofCaller.get(name)
    if (found) return found
    const { id, visibility, destinations: grants } = caller
    const made: Reader = {
      ...{ caller: id, visibility, grants },
      ...(account !== undefined && { account }),
      ...(wholeOnly && { wholeOnly }),
    }
    ofCaller.set(name, made)
    return made
  }
}
