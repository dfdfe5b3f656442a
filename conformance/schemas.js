/**
 * The protocol's JSON Schemas of each release: of 3.0 from the SDK, of later ones from beside the repository, where they are
 * at hand. An answer is held against those of the release that it names, and one of 3.1 against those of 3.2 too.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Ajv } from 'ajv'
import ajvFormats from 'ajv-formats'

const BESIDE = fileURLToPath(new URL('../../shared/adcp/schemas', import.meta.url))
const IN_SDK = fileURLToPath(new URL('./node_modules/@adcp/sdk/dist/lib/schemas-data/3.0', import.meta.url))

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

const beside = existsSync(BESIDE) ? readdirSync(BESIDE).sort() : []
const FOLDERS = [['3.0', IN_SDK], ...beside.map((release) => [release, join(BESIDE, release)])]
export const RELEASES = FOLDERS.map(([release]) => release)
export const SCHEMAS_ABSENT =
  beside.length === 0 && `${BESIDE} is absent: answers of 3.1 and 3.2 are not held against their schemas`

/** Whether answers of the release `served` are held against the schemas of `release`, a patch of one. */
function judges(release, served) {
  if (release.startsWith('3.0')) return served === '3.0'
  if (release.startsWith('3.1')) return served === '3.1'
  return served !== '3.0'
}

function validatorsOf(folder) {
  const ajv = new Ajv({ strict: false, allErrors: true, logger: false })
  ajvFormats.default(ajv)
  const ids = new Map()
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.json') || /^(bundled|manifest|index)/.test(file)) continue
    const schema = JSON.parse(readFileSync(join(folder, file), 'utf8'))
    if (schema.$id === undefined) continue
    ajv.addSchema(schema)
    ids.set(file, schema.$id)
  }
  return (name) => ids.has(name) && ajv.getSchema(ids.get(name))
}

/** For each release, `(task, answer)` to what is wrong with the answer, or undefined; `judges` says whose answers it is for. */
export function createSchemas() {
  return FOLDERS.map(([release, folder]) => {
    const validators = validatorsOf(folder)
    const check = (task, answer) => {
      const [name, value] =
        answer.status === 'failed' && answer.adcp_error
          ? [ERROR, answer.adcp_error]
          : [RESPONSES[task], answer]
      const validate = validators(name)
      if (!validate || validate(value)) return undefined // a task that the release does not have
      const { instancePath, message, params } = validate.errors[0]
      return `${task}: ${instancePath || '/'} ${message} ${JSON.stringify(params)}`
    }
    return { release, judges: (served) => judges(release, served), check }
  })
}
