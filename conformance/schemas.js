/** The protocol's JSON Schemas of every release that is at hand, beside the repository; without them nothing is checked. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Ajv } from 'ajv'
import ajvFormats from 'ajv-formats'

const ROOT = fileURLToPath(new URL('../../shared/adcp/schemas', import.meta.url))

/** Task to the schema of its answer. */
const RESPONSES = {
  get_adcp_capabilities: 'protocol/get-adcp-capabilities-response.json',
  get_signals: 'signals/get-signals-response.json',
  activate_signal: 'signals/activate-signal-response.json',
  get_task_status: 'protocol/get-task-status-response.json',
  list_tasks: 'protocol/list-tasks-response.json',
  list_accounts: 'account/list-accounts-response.json',
  sync_accounts: 'account/sync-accounts-response.json',
  report_usage: 'account/report-usage-response.json',
}

/** Of a failure, which no response schema describes as a whole, the error. */
const ERROR = 'core/error.json'

export const RELEASES = existsSync(ROOT) ? readdirSync(ROOT).sort() : []
export const SCHEMAS_ABSENT =
  RELEASES.length === 0 && `${ROOT} is absent: answers are not held against the schemas`

function validatorsOf(release) {
  const ajv = new Ajv({ strict: false, allErrors: true, logger: false })
  ajvFormats.default(ajv)
  const folder = join(ROOT, release)
  const ids = new Map()
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.json')) continue
    const schema = JSON.parse(readFileSync(join(folder, file), 'utf8'))
    ajv.addSchema(schema)
    ids.set(file, schema.$id)
  }
  return (name) => ajv.getSchema(ids.get(name))
}

/** For each release, `(task, answer)` to what is wrong with the answer, or undefined. */
export function createSchemas() {
  return RELEASES.map((release) => {
    const validators = validatorsOf(release)
    const check = (task, answer) => {
      const [name, value] =
        answer.status === 'failed' ? [ERROR, answer.adcp_error] : [RESPONSES[task], answer]
      const validate = validators(name)
      if (validate(value)) return undefined
      const { instancePath, message, params } = validate.errors[0]
      return `${task}: ${instancePath || '/'} ${message} ${JSON.stringify(params)}`
    }
    return { release, check }
  })
}
