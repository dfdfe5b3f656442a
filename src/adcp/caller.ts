/** Who is asking, once the credentials are checked (docs/decisions.md#callers). Nothing here is a secret. */
import type { AccountReference } from './account.js'
import type { Destination } from './signal.js'

export type Role = 'anonymous' | 'buyer' | 'operator'

export type Caller = {
  /** Keys of the caller's own state: idempotency, ledger, tasks, accounts, cursors, limits. Never published. */
  readonly id: string
  readonly role: Role
  /** `metadata`: no prices, no keys. */
  readonly visibility: 'full' | 'metadata'
  /** Destinations whose activation keys the caller may see. */
  readonly destinations: readonly Destination[]
  /** The caller's account -> an upstream's canonical url -> the account reference that upstream knows it by. */
  readonly accounts: ReadonlyMap<string, ReadonlyMap<string, AccountReference>>
}
