/**
 * The schemas of tasks: what every request may carry in addition to its task's own fields (docs/protocol.md#versions, #envelope),
 * what the tasks of accounts and of the protocol take (schemas account/*-request and protocol/*-request), and what MCP hosts
 * see of each task's answer (`outputSchema`). A task's request schema spreads the envelope in, so that one validator and the tool
 * schema see the whole request: some clients drop arguments that a tool does not list. An answer's schema names the members that
 * a model or a program relies on; one schema covers answers and refusals.
 */
import { AccountReference, Brand } from './caller.js'
import { type Static, type TProperties, Type, wordOf } from './schema.js'
import { Country, Currency, Domain } from './signal.js'

const MAX_ROWS = 1_000 // of one report_usage request
export const PAYMENT_TERMS = ['net_15', 'net_30', 'net_45', 'net_60', 'net_90', 'prepay'] as const

/** The form of an idempotency key, for every task that requires one (docs/protocol.md#requests). */
export const IdempotencyKey = Type.String({
  pattern: '^[A-Za-z0-9_.:-]{16,255}$',
  description: 'Names this request: sending it again with the same key repeats nothing. Use a UUID.',
})

export const requestEnvelope = {
  adcp_version: Type.Optional(
    Type.String({
      pattern: '^\\d+\\.\\d+(-[a-zA-Z0-9.-]+)?$',
      maxLength: 64,
      description: 'The protocol release you speak, such as "3.1".',
    }),
  ),
  adcp_major_version: Type.Optional(Type.Integer({ minimum: 1, maximum: 99 })),
  context: Type.Optional(
    Type.Object({}, { description: 'Anything of yours: it comes back as you sent it.' }),
  ),
  context_id: Type.Optional(
    Type.String({ minLength: 1, maxLength: 256, description: 'The context_id of an earlier answer.' }),
  ),
  idempotency_key: Type.Optional(Type.String({ maxLength: 255 })),
  ext: Type.Optional(Type.Object({})),
}

const Word = Type.String({ minLength: 1, maxLength: 64 })
const Instant = Type.String({ format: 'date-time', maxLength: 64 }) // the format takes the longest to check
const IncludeHistory = Type.Optional(
  Type.Boolean({ description: 'Send what was asked and answered so far too.' }),
)
const Id = Type.String({ minLength: 1, maxLength: 256 })

const upTo = (maxLength: number) => Type.Optional(Type.String({ maxLength }))

const text = (description?: string) => Type.String(description === undefined ? {} : { description })
const objects = (description?: string) =>
  Type.Array(Type.Object({}), description === undefined ? {} : { description })

/** Its members are optional, because a refusal has none of them; others are allowed, because the protocol may add some. */
function response(members: TProperties) {
  const optional = Object.fromEntries(
    Object.entries(members).map(([name, schema]) => [name, Type.Optional(schema)]),
  )
  return Type.Object({
    status: text(),
    message: text(),
    ...optional,
    adcp_error: Type.Optional(Type.Object({})),
  })
}

const Pagination = Type.Object({
  has_more: Type.Boolean(),
  cursor: Type.Optional(text('Of the next page.')),
  total_count: Type.Optional(Type.Integer()),
})

const taskId = text('Not done yet: poll get_task_status with it.')

export const GetTaskStatusRequest = Type.Object({
  ...requestEnvelope,
  task_id: Id,
  account: Type.Optional(AccountReference),
  include_history: IncludeHistory,
  include_result: Type.Optional(Type.Boolean({ description: 'Send the result too, once there is one.' })),
})
export type GetTaskStatusRequest = Static<typeof GetTaskStatusRequest>

/** Schema enums/task-status. */
const Status = wordOf([
  ...['submitted', 'working', 'input-required', 'completed', 'canceled', 'failed', 'rejected'],
  ...['auth-required', 'unknown'],
])

/** Schema enums/adcp-protocol. */
export const ListedProtocol = wordOf([
  'media-buy',
  'signals',
  'governance',
  'creative',
  'brand',
  'sponsored-intelligence',
  'measurement',
])
/** Schema enums/task-type, of every release that is served. */
export const TaskType = wordOf([
  'create_media_buy',
  'update_media_buy',
  'buy_products',
  'accept_proposal',
  'control_media_buy',
  'media_buy_delivery',
  'sync_creatives',
  'build_creative',
  'preview_creative',
  'activate_signal',
  'get_products',
  'request_proposals',
  'refine_proposals',
  'decline_proposals',
  'get_signals',
  'create_property_list',
  'update_property_list',
  'get_property_list',
  'list_property_lists',
  'delete_property_list',
  'sync_accounts',
  'get_account_financials',
  'get_creative_delivery',
  'sync_event_sources',
  'sync_audiences',
  'sync_catalogs',
  'log_event',
  'get_brand_identity',
  'search_brands',
  'get_rights',
  'acquire_rights',
  'update_rights',
  'sync_agent_notification_configs',
])

export const ListTasksRequest = Type.Object({
  ...requestEnvelope,
  account: Type.Optional(AccountReference),
  filters: Type.Optional(
    Type.Object({
      protocol: Type.Optional(ListedProtocol),
      protocols: Type.Optional(Type.Array(ListedProtocol, { minItems: 1, maxItems: 32 })),
      status: Type.Optional(Status),
      statuses: Type.Optional(Type.Array(Status, { minItems: 1, maxItems: 32 })),
      task_type: Type.Optional(TaskType),
      task_types: Type.Optional(Type.Array(TaskType, { minItems: 1, maxItems: 64 })),
      created_after: Type.Optional(Instant),
      created_before: Type.Optional(Instant),
      updated_after: Type.Optional(Instant),
      updated_before: Type.Optional(Instant),
      task_ids: Type.Optional(Type.Array(Id, { minItems: 1, maxItems: 100 })),
      context_contains: Type.Optional(Type.String({ maxLength: 256 })),
      has_webhook: Type.Optional(Type.Boolean()),
    }),
  ),
  sort: Type.Optional(
    Type.Object({
      field: Type.Optional(wordOf(['created_at', 'updated_at', 'status', 'task_type', 'protocol'])),
      direction: Type.Optional(wordOf(['asc', 'desc'])),
    }),
  ),
  pagination: Type.Optional(
    Type.Object(
      {
        max_results: Type.Optional(Type.Integer({ minimum: 1 })),
        cursor: Type.Optional(Type.String({ maxLength: 256 })),
      },
      { additionalProperties: false },
    ),
  ),
  include_history: IncludeHistory,
})
export type ListTasksRequest = Static<typeof ListTasksRequest>

export const CapabilitiesRequest = Type.Object({
  ...requestEnvelope,
  protocols: Type.Optional(
    Type.Array(wordOf(['media_buy', 'signals', 'governance', 'sponsored_intelligence', 'creative']), {
      minItems: 1,
      maxItems: 16,
      description: 'Only these protocols; this agent speaks signals.',
    }),
  ),
})
export type CapabilitiesRequest = Static<typeof CapabilitiesRequest>

export const ListAccountsRequest = Type.Object({
  ...requestEnvelope,
  account: Type.Optional(AccountReference),
  status: Type.Optional(
    wordOf(['active', 'pending_approval', 'rejected', 'payment_required', 'suspended', 'closed']),
  ),
  sandbox: Type.Optional(Type.Boolean()),
  pagination: Type.Optional(
    Type.Object(
      {
        max_results: Type.Optional(Type.Integer({ minimum: 1 })),
        cursor: Type.Optional(Type.String({ maxLength: 512 })),
      },
      { additionalProperties: false },
    ),
  ),
})
export type ListAccountsRequest = Static<typeof ListAccountsRequest>

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
          country: Country,
        },
        { additionalProperties: false },
      ),
    ),
    contacts: Type.Optional(
      Type.Array(
        Type.Object(
          {
            role: wordOf(['billing', 'legal', 'creative', 'general']),
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
      brand: Type.Optional(Brand),
      operator: Type.Optional(Domain),
      billing: Type.Optional(Word),
      billing_entity: Type.Optional(BusinessEntity),
      payment_terms: Type.Optional(wordOf(PAYMENT_TERMS)),
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

/** Unlisted members of a row are passed on. */
const UsageRow = Type.Object({
  account: AccountReference,
  signal_agent_segment_id: Type.Optional(Id),
  pricing_option_id: Type.Optional(Id),
  media_buy_id: Type.Optional(Id),
  impressions: Type.Optional(Type.Integer({ minimum: 0 })),
  media_spend: Type.Optional(Type.Number({ minimum: 0 })),
  vendor_cost: Type.Number({ minimum: 0, description: 'What is owed for this row, in currency.' }),
  currency: Currency,
  final: Type.Optional(Type.Boolean()),
  finalized_at: Type.Optional(Instant),
  measurement_window: Type.Optional(Type.String({ maxLength: 50 })),
})

export const ReportUsageRequest = Type.Object({
  ...requestEnvelope,
  idempotency_key: IdempotencyKey,
  reporting_period: Type.Object({ start: Instant, end: Instant }),
  usage: Type.Array(UsageRow, {
    minItems: 1,
    maxItems: MAX_ROWS,
    description: 'One row a signal, account and price; rows of several upstreams may be mixed.',
  }),
})
export type ReportUsageRequest = Static<typeof ReportUsageRequest>

export const CapabilitiesResponse = response({
  adcp: Type.Object({}),
  supported_protocols: Type.Array(text()),
  specialisms: Type.Array(text()),
  signals: Type.Object({}),
})

export const GetSignalsResponse = response({
  task_id: taskId,
  signals: Type.Array(
    Type.Object({
      signal_agent_segment_id: text('Send it unchanged to activate_signal.'),
      name: text(),
      signal_type: text(),
      deployments: objects('Where it can be activated, and whether it is live there.'),
      pricing_options: Type.Optional(objects()),
    }),
  ),
  pagination: Pagination,
  incomplete: objects('What is missing from this answer, and why.'),
  unchanged: Type.Boolean(),
  wholesale_feed_version: text(),
  pricing_version: text(),
  cache_scope: text(),
})

export const ActivateSignalResponse = response({ task_id: taskId, deployments: objects() })

export const GetTaskStatusResponse = response({
  task_id: text('The status is this task`s: submitted and working are not done yet.'),
  task_type: text(),
  created_at: text(),
  updated_at: text(),
  result: Type.Object({}),
})

export const ListTasksResponse = response({ tasks: objects(), pagination: Pagination })
export const ListAccountsResponse = response({ accounts: objects(), pagination: Pagination })
export const SyncAccountsResponse = response({ accounts: objects('One result for each entry, in order.') })
export const ReportUsageResponse = response({ accepted: Type.Integer() })
