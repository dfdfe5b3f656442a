/** What report_usage takes (schema account/report-usage-request). Rows may carry more than is listed: it is passed on. */
import { type Static, Type } from '@sinclair/typebox'
import { AccountReference } from '../account.js'
import { IdempotencyKey, requestEnvelope } from '../envelope.js'

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
