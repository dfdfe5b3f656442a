/** What get_task_status, list_tasks and get_adcp_capabilities take (schemas protocol/*-request). */
import { AccountReference } from '../caller.js'
import { type Static, type TLiteral, Type } from '../type.js'
import { requestEnvelope } from './envelope.js'

const Word = Type.String({ minLength: 1, maxLength: 64 })
const Words = Type.Array(Word, { minItems: 1, maxItems: 32 })
const Instant = Type.String({ format: 'date-time' })
const IncludeHistory = Type.Optional(
  Type.Boolean({ description: 'Send what was asked and answered so far too.' }),
)
const TaskId = Type.String({ minLength: 1, maxLength: 256 })

function oneOf<const T extends string>(...values: readonly T[]) {
  return Type.Union(values.map((value) => Type.Literal(value)) as TLiteral<T>[])
}

/** enums/task-status */
const Status = oneOf(
  ...['submitted', 'working', 'input-required', 'completed', 'canceled', 'failed', 'rejected'],
  ...['auth-required', 'unknown'],
)

export const GetTaskStatusRequest = Type.Object({
  ...requestEnvelope,
  task_id: TaskId,
  account: Type.Optional(AccountReference),
  include_history: IncludeHistory,
  include_result: Type.Optional(Type.Boolean({ description: 'Send the result too, once there is one.' })),
})
export type GetTaskStatusRequest = Static<typeof GetTaskStatusRequest>

export const ListTasksRequest = Type.Object({
  ...requestEnvelope,
  account: Type.Optional(AccountReference),
  filters: Type.Optional(
    Type.Object({
      protocol: Type.Optional(Word),
      protocols: Type.Optional(Words),
      status: Type.Optional(Status),
      statuses: Type.Optional(Type.Array(Status, { minItems: 1, maxItems: 32 })),
      task_type: Type.Optional(Word),
      task_types: Type.Optional(Words),
      created_after: Type.Optional(Instant),
      created_before: Type.Optional(Instant),
      updated_after: Type.Optional(Instant),
      updated_before: Type.Optional(Instant),
      task_ids: Type.Optional(Type.Array(TaskId, { minItems: 1, maxItems: 100 })),
      context_contains: Type.Optional(Type.String({ maxLength: 256 })),
      has_webhook: Type.Optional(Type.Boolean()),
    }),
  ),
  sort: Type.Optional(
    Type.Object({
      field: Type.Optional(oneOf('created_at', 'updated_at', 'status', 'task_type', 'protocol')),
      direction: Type.Optional(oneOf('asc', 'desc')),
    }),
  ),
  pagination: Type.Optional(
    Type.Object({
      max_results: Type.Optional(Type.Integer({ minimum: 1 })),
      cursor: Type.Optional(Type.String({ maxLength: 256 })),
    }),
  ),
  include_history: IncludeHistory,
})
export type ListTasksRequest = Static<typeof ListTasksRequest>

/** The request of get_adcp_capabilities (schema protocol/get-adcp-capabilities-request). */
export const CapabilitiesRequest = Type.Object({
  ...requestEnvelope,
  protocols: Type.Optional(
    Type.Array(
      Type.Union([
        Type.Literal('media_buy'),
        Type.Literal('signals'),
        Type.Literal('governance'),
        Type.Literal('sponsored_intelligence'),
        Type.Literal('creative'),
      ]),
      { minItems: 1, maxItems: 16, description: 'Only these protocols; this agent speaks signals.' },
    ),
  ),
})
export type CapabilitiesRequest = Static<typeof CapabilitiesRequest>
