/** The protocol's JSON Schemas as validators; absent when the shared folder is (the test then skips). */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv, type ValidateFunction } from 'ajv'
import ajvFormats from 'ajv-formats'

const ROOT = '../shared/adcp/schemas'
export type SchemaRelease = '3.1.19' | '3.2.0-beta.5'

export const SCHEMAS_ABSENT = existsSync(ROOT)
  ? false
  : `${ROOT} is absent: the protocol's schemas are not checked`

const compilers = new Map<SchemaRelease, { ajv: Ajv; ids: Map<string, string> }>()

function compilerOf(release: SchemaRelease): { ajv: Ajv; ids: Map<string, string> } {
  const known = compilers.get(release)
  if (known) return known
  const ajv = new Ajv({ strict: false, allErrors: true, logger: false, code: { optimize: false } })
  ajvFormats.default(ajv)
  const folder = join(ROOT, release)
  const ids = new Map<string, string>()
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.json')) continue
    const schema = JSON.parse(readFileSync(join(folder, file), 'utf8'))
    ajv.addSchema(schema)
    ids.set(file, schema.$id)
  }
  compilers.set(release, { ajv, ids })
  return { ajv, ids }
}

/** A validator of one schema, such as `signals/get-signals-response.json`. */
export function adcpSchema(name: string, release: SchemaRelease = '3.1.19'): ValidateFunction {
  const { ajv, ids } = compilerOf(release)
  const validate = ajv.getSchema(ids.get(name) ?? name)
  if (!validate) throw new Error(`No schema ${name} in ${release}`)
  return validate
}
