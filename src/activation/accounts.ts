/**
 * Whose account a request is about: which accounts are a caller's own (docs/decisions.md#callers), and whose prices a read of the
 * feed shows. An account that does not exist and one of somebody else get the same answer, byte for byte
 * (docs/protocol.md#envelope). What names an account is canonical JSON or a hash of it, so another replica, or this one after a
 * restart, gives it the same name.
 */
import { hash } from 'node:crypto'
import { type Refused, refuse } from '../adcp/answer.js'
import type { AccountReference, Caller } from '../adcp/caller.js'
import { overlayName, type Reader } from '../feed/query.js'
import type { AccountStatus, Accounts } from '../store/records/accounts.js'
import { canonical } from '../store/records/idempotency.js'

/** An account that belongs to the caller. */
export type OwnAccount = {
  /** The id that we gave it; absent for an account that is gone. */
  id?: string
  /** Equal for equal references: canonical JSON. */
  key: string
  /** The upstream's name for it; undefined when it has none. */
  at(agentUrl: string): AccountReference | undefined
}

type Natural = Pick<Extract<AccountReference, { operator: string }>, 'brand' | 'operator'> & {
  sandbox?: boolean | undefined
}

/** One spelling of a natural key: `sandbox: false` is the default and left out, other members of brand are ignored. */
export function naturalKey({ brand, operator, sandbox }: Natural): string {
  const { domain, brand_id } = brand
  return canonical({
    brand: { domain, ...(brand_id !== undefined && { brand_id }) },
    operator,
    ...(sandbox === true && { sandbox }),
  })
}

/** One answer for unknown accounts and for accounts of others (docs/protocol.md#envelope). */
function accountNotFound(field: string): Refused {
  return refuse('ACCOUNT_NOT_FOUND', 'There is no such account.', {
    field,
    suggestion: 'Use an account of list_accounts, or declare it with sync_accounts.',
  })
}

/** Why an account in this status cannot be used; undefined when it can. */
function stoppedBy(status: AccountStatus, field: string): Refused | undefined {
  if (status === 'active') return undefined
  if (status === 'suspended') {
    const suggestion = 'Ask the operator of this agent to lift the suspension, or use another account.'
    return refuse('ACCOUNT_SUSPENDED', 'The account is suspended.', { field, suggestion })
  }
  if (status === 'payment_required') {
    const suggestion = 'Settle what is owed on the account, or use another one.'
    return refuse('ACCOUNT_PAYMENT_REQUIRED', 'A payment for the account is due.', { field, suggestion })
  }
  return accountNotFound(field)
}

/** The id of the account that a natural key names for this caller: the same before and after it is declared. */
export function accountIdOf(caller: string, key: string): string {
  return `acc_${hash('sha256', canonical([caller, key]), 'base64url').slice(0, 22)}`
}

/**
 * The account that a reference names: a configured one, by id; a declared one, by id or natural key; or a natural key
 * that was never declared. The last is the caller's own name for its account and needs no declaration
 * (docs/decisions.md#accounts). Upstreams receive the natural key and decide whether they accept it.
 */
export async function findOwnAccount(
  caller: Caller,
  reference: AccountReference,
  accounts: Accounts,
  field: string,
): Promise<{ kind: 'account'; account: OwnAccount } | Refused> {
  if ('account_id' in reference) {
    const mapped = caller.accounts.get(reference.account_id)
    if (mapped) {
      const { account_id: id } = reference
      const account: OwnAccount = { id, key: canonical(reference), at: (agentUrl) => mapped.get(agentUrl) }
      return { kind: 'account', account }
    }
  }
  const named = 'account_id' in reference ? undefined : naturalKey(reference)
  const declared =
    'account_id' in reference
      ? await accounts.get(caller.id, reference.account_id)
      : await accounts.byNaturalKey(caller.id, naturalKey(reference))
  const key = named ?? declared?.naturalKey
  if (key === undefined) return accountNotFound(field)
  const stopped = declared && stoppedBy(declared.status, field)
  if (stopped) return stopped
  const natural = JSON.parse(key) as AccountReference
  return { kind: 'account', account: { id: accountIdOf(caller.id, key), key, at: () => natural } }
}

/**
 * What the reference may once have named: an account that is closed or no longer configured is none any more, but what was activated
 * for it can still be switched off.
 */
export async function formerAccount(
  caller: Caller,
  reference: AccountReference,
  accounts: Accounts,
): Promise<OwnAccount> {
  const told = 'account_id' in reference ? await accounts.get(caller.id, reference.account_id) : undefined
  const named = 'account_id' in reference ? canonical(reference) : naturalKey(reference)
  return { key: told?.naturalKey ?? named, at: () => undefined }
}

export type AccountFound =
  /** `overlay`: the layer of the feed that may hold prices of its own; without one the rate card is the account's. */
  { kind: 'account'; overlay?: string } | Refused

/** Whether the caller declared this account id to us, with sync_accounts. */
export type DeclaredAccounts = (callerId: string, accountId: string) => Promise<boolean>

const NEEDS_CREDENTIALS: AccountFound = refuse('AUTH_REQUIRED', 'Account prices need credentials.', {
  field: 'account',
  suggestion: 'Send Authorization: Bearer with a key of this agent, or leave account out.',
})

const NO_ACCOUNT: AccountFound = refuse('ACCOUNT_NOT_FOUND', 'There is no such account.', {
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
  return declared(caller.id, id).then((isOwn) => (isOwn ? { kind: 'account' } : NO_ACCOUNT))
}

/** Who reads the feed: a caller, with the layer of an account that is the caller's. */
export function ownReader(
  { id, visibility, destinations: grants }: Caller,
  account: string | undefined,
): Reader {
  return { caller: id, visibility, grants, ...(account !== undefined && { account }) }
}

/** By account; undefined stands for none. */
type Readers = Map<string | undefined, Reader>

/** The same, as one object per caller, release and account. */
export function createReaders() {
  const known = { whole: new WeakMap<Caller, Readers>(), all: new WeakMap<Caller, Readers>() }
  return (caller: Caller, wholeOnly: boolean, account: string | undefined): Reader => {
    const ofRelease = wholeOnly ? known.whole : known.all
    const ofCaller: Readers = ofRelease.get(caller) ?? new Map()
    const found = ofCaller.get(account)
    if (found) return found
    const made: Reader = { ...ownReader(caller, account), ...(wholeOnly && { wholeOnly }) }
    ofRelease.set(caller, ofCaller.set(account, made))
    return made
  }
}
