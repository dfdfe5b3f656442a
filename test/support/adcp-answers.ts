/**
 * What the protocol's schemas find wrong with an answer of a task. An answer of 3.1 must be valid in the schemas of 3.2 as
 * well, so that clients of either release can read it.
 */
import type { Release } from '../../src/adcp/answer.js'
import { adcpSchema, hasSchemasOf, type SchemaRelease } from './adcp-schema.js'

const RESPONSES: Readonly<Record<string, string>> = {
  get_adcp_capabilities: 'protocol/get-adcp-capabilities-response.json',
  get_signals: 'signals/get-signals-response.json',
  activate_signal: 'signals/activate-signal-response.json',
  get_task_status: 'protocol/get-task-status-response.json',
  list_tasks: 'protocol/list-tasks-response.json',
  list_accounts: 'account/list-accounts-response.json',
  sync_accounts: 'account/sync-accounts-response.json',
  report_usage: 'account/report-usage-response.json',
}
/** In 3.0 these two had other names. */
const RESPONSES_3_0: Readonly<Record<string, string>> = {
  ...RESPONSES,
  get_task_status: 'core/tasks-get-response.json',
  list_tasks: 'core/tasks-list-response.json',
}
/** The schemas that answers of a release must conform to, its own first. */
const SCHEMAS: Readonly<Record<Release, readonly SchemaRelease[]>> = {
  '3.0': ['3.0'],
  '3.1': ['3.1.19', '3.2.0-beta.5'],
  '3.2-beta.5': ['3.2.0-beta.5'],
}

type TaskAnswer = Readonly<Record<string, unknown>> & { status?: unknown; adcp_error?: unknown }

/** No schema of 3.0 describes the answer of a task that has been submitted. */
const isUndescribed = ({ status, task_id }: TaskAnswer, schemas: SchemaRelease) =>
  schemas === '3.0' && status === 'submitted' && task_id !== undefined

/** What the schemas of one release find wrong; undefined when the answer is valid. Of a failure, only its error is checked. */
function faultIn(schemas: SchemaRelease, task: string, answer: TaskAnswer): string | undefined {
  if (isUndescribed(answer, schemas)) return undefined
  const { adcp_error: error } = answer
  const names = schemas === '3.0' ? RESPONSES_3_0 : RESPONSES
  const validate = adcpSchema(error ? 'core/error.json' : (names[task] as string), schemas)
  if (validate(error ?? answer)) return undefined
  return `${task} in ${schemas}: ${JSON.stringify(validate.errors?.slice(0, 3))}`
}

/** The schemas at hand that an answer of `release` must conform to, each with its check; none when they are absent. */
export function answerChecks(release: Release) {
  return SCHEMAS[release].filter(hasSchemasOf).map((schemas) => ({
    schemas,
    faultOf: (task: string, answer: TaskAnswer) => faultIn(schemas, task, answer),
  }))
}

/** What the first of these checks that fails says; undefined when the answer is valid, or no schemas are at hand. */
export function answerFault(task: string, answer: TaskAnswer, release: Release): string | undefined {
  for (const { faultOf } of answerChecks(release)) {
    const fault = faultOf(task, answer)
    if (fault !== undefined) return fault
  }
  return undefined
}
