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

/** By account; undefined stands for none. */
type Readers = Map<string | undefined, Reader>

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
  const known = { whole: new WeakMap<Caller, Readers>(), all: new WeakMap<Caller, Readers>() }
  return (caller: Caller, wholeOnly: boolean, account: string | undefined): Reader => {
    const ofRelease = wholeOnly ? known.whole : known.all
    const ofCaller: Readers = ofRelease.get(caller) ?? new Map()
    const found = ofCaller.get(account)
    if (found) return found
    const { id, visibility, destinations: grants } = caller
    const made: Reader = {
      ...{ caller: id, visibility, grants },
      ...(account !== undefined && { account }),
      ...(wholeOnly && { wholeOnly }),
    }
    ofRelease.set(caller, ofCaller.set(account, made))
    return made
  }
}
