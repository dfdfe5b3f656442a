/** What list_accounts and sync_accounts take (schemas account/list-accounts-request, account/sync-accounts-request). */
import { type Static, Type } from '@sinclair/typebox'
import { AccountReference } from '../account.js'
import { IdempotencyKey, requestEnvelope } from '../envelope.js'

const Domain = Type.String({
  pattern: '^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$',
  maxLength: 253,
})
const Word = Type.String({ minLength: 1, maxLength: 64 })

export const ListAccountsRequest = Type.Object({
  ...requestEnvelope,
  account: Type.Optional(AccountReference),
  status: Type.Optional(
    Type.Union([
      Type.Literal('active'),
      Type.Literal('pending_approval'),
      Type.Literal('rejected'),
      Type.Literal('payment_required'),
      Type.Literal('suspended'),
      Type.Literal('closed'),
    ]),
  ),
  sandbox: Type.Optional(Type.Boolean()),
  pagination: Type.Optional(
    Type.Object({
      max_results: Type.Optional(Type.Integer({ minimum: 1 })),
      cursor: Type.Optional(Type.String({ maxLength: 512 })),
    }),
  ),
})
export type ListAccountsRequest = Static<typeof ListAccountsRequest>

export const SyncAccountsRequest = Type.Object({
  ...requestEnvelope,
  idempotency_key: IdempotencyKey,
  accounts: Type.Array(
    Type.Object({
      account: Type.Optional(AccountReference),
      brand: Type.Optional(
        Type.Object({
          domain: Domain,
          brand_id: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
        }),
      ),
      operator: Type.Optional(Domain),
      billing: Type.Optional(Word),
      billing_entity: Type.Optional(Type.Object({})),
      payment_terms: Type.Optional(Word),
      sandbox: Type.Optional(Type.Boolean()),
      // Only the array is checked here: what is wrong with a subscription fails its account, not the request.
      notification_configs: Type.Optional(Type.Array(Type.Object({}), { maxItems: 16 })),
    }),
    {
      maxItems: 1_000,
      description:
        'Each entry declares an account (brand, operator and billing) or changes settings of one (account).',
    },
  ),
  delete_missing: Type.Optional(
    Type.Boolean({ description: 'Close declared accounts that are not listed here.' }),
  ),
  dry_run: Type.Optional(Type.Boolean()),
  push_notification_config: Type.Optional(Type.Object({})),
})
export type SyncAccountsRequest = Static<typeof SyncAccountsRequest>
