/**
 * The output schema of each task, as MCP hosts see it (`outputSchema`): the members that a model or a program relies
 * on. Other members are allowed, because the protocol may add some; the protocol's own schemas describe them. One
 * schema covers answers and refusals.
 */
import { type TProperties, Type } from './type.js'

const text = (description?: string) => Type.String(description === undefined ? {} : { description })
const objects = (description?: string) =>
  Type.Array(Type.Object({}), description === undefined ? {} : { description })

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
