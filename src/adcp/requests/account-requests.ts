/** What list_accounts, sync_accounts and report_usage take (schemas account/*-request). */
import { AccountReference, BrandId, Domain } from '../caller.js'
import { type Static, Type } from '../type.js'
import { IdempotencyKey, requestEnvelope } from './envelope.js'

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

export const PAYMENT_TERMS = ['net_15', 'net_30', 'net_45', 'net_60', 'net_90', 'prepay'] as const
const upTo = (maxLength: number) => Type.Optional(Type.String({ maxLength }))

/** Who pays (schema core/business-entity). It is echoed, so it has to be what that schema says; bank details are not. */
export const BusinessEntity = Type.Object(
  {
    legal_name: Type.String({ maxLength: 200 }),
    vat_id: Type.Optional(Type.String({ pattern: '^[A-Z]{2}[A-Z0-9]{2,13}$' })),
    tax_id: upTo(30),
    registration_number: upTo(50),
    address: Type.Optional(
      Type.Object(
        {
          ...{ street: Type.String({ maxLength: 200 }), city: Type.String({ maxLength: 100 }) },
          ...{ postal_code: Type.String({ maxLength: 20 }), region: upTo(100) },
          country: Type.String({ pattern: '^[A-Z]{2}$' }),
        },
        { additionalProperties: false },
      ),
    ),
    contacts: Type.Optional(
      Type.Array(
        Type.Object(
          {
            role: Type.Union(
              (['billing', 'legal', 'creative', 'general'] as const).map((role) => Type.Literal(role)),
            ),
            ...{ name: upTo(200), phone: upTo(30) },
            email: Type.Optional(Type.String({ format: 'email', maxLength: 254 })),
          },
          { additionalProperties: false },
        ),
        { maxItems: 10 },
      ),
    ),
    bank: Type.Optional(Type.Object({})),
    ext: Type.Optional(Type.Object({})),
  },
  { additionalProperties: false },
)

export const SyncAccountsRequest = Type.Object({
  ...requestEnvelope,
  idempotency_key: IdempotencyKey,
  accounts: Type.Array(
    Type.Object({
      account: Type.Optional(AccountReference),
      brand: Type.Optional(
        Type.Object({
          domain: Domain,
          brand_id: Type.Optional(BrandId),
        }),
      ),
      operator: Type.Optional(Domain),
      billing: Type.Optional(Word),
      billing_entity: Type.Optional(BusinessEntity),
      payment_terms: Type.Optional(Type.Union(PAYMENT_TERMS.map((terms) => Type.Literal(terms)))),
      sandbox: Type.Optional(Type.Boolean()),
      // Only the array is checked here: a wrong subscription fails its own account, not the whole request.
      notification_configs: Type.Optional(Type.Array(Type.Object({}), { maxItems: 16 })),
    }),
    { maxItems: 1_000 },
  ),
  delete_missing: Type.Optional(Type.Boolean({ description: 'Close declared accounts not listed here.' })),
  dry_run: Type.Optional(Type.Boolean()),
  push_notification_config: Type.Optional(Type.Object({})),
})
export type SyncAccountsRequest = Static<typeof SyncAccountsRequest>

/** What report_usage takes (schema account/report-usage-request). Unlisted members of a row are passed on. */
const MAX_ROWS = 1_000

const Id = Type.String({ minLength: 1, maxLength: 256 })

const UsageRow = Type.Object({
  account: AccountReference,
  signal_agent_segment_id: Type.Optional(Id),
  pricing_option_id: Type.Optional(Id),
  media_buy_id: Type.Optional(Id),
  impressions: Type.Optional(Type.Integer({ minimum: 0 })),
  media_spend: Type.Optional(Type.Number({ minimum: 0 })),
  vendor_cost: Type.Number({ minimum: 0, description: 'What is owed for this row, in currency.' }),
  currency: Type.String({ pattern: '^[A-Z]{3}$' }),
  final: Type.Optional(Type.Boolean()),
  finalized_at: Type.Optional(Type.String({ format: 'date-time' })),
  measurement_window: Type.Optional(Type.String({ maxLength: 50 })),
})

export const ReportUsageRequest = Type.Object({
  ...requestEnvelope,
  idempotency_key: IdempotencyKey,
  reporting_period: Type.Object({
    start: Type.String({ format: 'date-time' }),
    end: Type.String({ format: 'date-time' }),
  }),
  usage: Type.Array(UsageRow, {
    minItems: 1,
    maxItems: MAX_ROWS,
    description: 'One row a signal, account and price; rows of several upstreams may be mixed.',
  }),
})
export type ReportUsageRequest = Static<typeof ReportUsageRequest>
