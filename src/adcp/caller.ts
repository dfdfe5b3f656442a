/** Who is asking, once the credentials are checked (docs/decisions.md#callers). Nothing here is a secret. */
import { type Static, Type } from './schema.js'
import { type Destination, Domain } from './signal.js'

/**
 * Whose brand, and which of a house's brands is meant (schemas core/brand-ref and core/brand-id). The other members of that
 * schema, of every release, tell of the brand and name no other account; a member that it does not have is refused, as there.
 */
export const Brand = Type.Object(
  {
    domain: Domain,
    brand_id: Type.Optional(Type.String({ pattern: '^[a-z0-9_]+$', maxLength: 256 })),
    countries: Type.Optional(Type.Unknown()),
    industries: Type.Optional(Type.Unknown()),
    data_subject_contestation: Type.Optional(Type.Unknown()),
    brand_kit_override: Type.Optional(Type.Unknown()),
  },
  { additionalProperties: false },
)

/** How a request names the account it is about (specification, "account"; schema core/account-ref). */
export const AccountReference = Type.Union([
  Type.Object(
    { account_id: Type.String({ minLength: 1, maxLength: 256 }) },
    { additionalProperties: false, description: 'An account by the id this agent gave it.' },
  ),
  Type.Object(
    { brand: Brand, operator: Domain, sandbox: Type.Optional(Type.Boolean()) },
    {
      additionalProperties: false,
      description: 'An account by its natural key: whose brand, operated by whom.',
    },
  ),
])
export type AccountReference = Static<typeof AccountReference>

type Role = 'anonymous' | 'buyer' | 'operator'

export type Caller = {
  /**
   * The key under which all of the caller's own state is stored: idempotency, ledger, tasks, accounts, cursors, limits.
   * Never published.
   */
  readonly id: string
  readonly role: Role
  /** With `metadata`, answers carry no prices and no activation keys. */
  readonly visibility: 'full' | 'metadata'
  /** Destinations whose activation keys the caller may see. */
  readonly destinations: readonly Destination[]
  /** The caller's account -> an upstream's canonical url -> the account reference that upstream knows it by. */
  readonly accounts: ReadonlyMap<string, ReadonlyMap<string, AccountReference>>
}
