/** What the schemas of its own release find wrong with an answer of a task. */
import type { Release } from '../../src/adcp/version.js'
import { adcpSchema, hasSchemasOf, type SchemaRelease } from './adcp-schema.js'
import type { Answer } from './federation.js'

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
const SCHEMAS: Readonly<Record<Release, SchemaRelease>> = {
  '3.0': '3.0.6',
  '3.1': '3.1.19',
  '3.2-beta.5': '3.2.0-beta.5',
}

/** 3.0 describes the answer of a task that goes on nowhere. */
const goesOn = ({ status, task_id }: Answer) => status === 'submitted' && task_id !== undefined

/** Undefined when nothing is, or the schemas are not at hand. Of a failure, its error is looked at. */
export function answerFault(task: string, answer: Answer, release: Release): string | undefined {
  if (!hasSchemasOf(SCHEMAS[release])) return undefined
  if (release === '3.0' && goesOn(answer)) return undefined
  const { adcp_error: error } = answer
  const names = release === '3.0' ? RESPONSES_3_0 : RESPONSES
  const validate = adcpSchema(error ? 'core/error.json' : (names[task] as string), SCHEMAS[release])
  if (validate(error ?? answer)) return undefined
  return `${task} in ${release}: ${JSON.stringify(validate.errors?.slice(0, 3))}`
}
