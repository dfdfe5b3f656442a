/**
 * The protocol's JSON Schemas as validators. Those of 3.0, which hold still, are kept beside this file without their
 * descriptions: what this agent's answers need of the published 3.0.6. Later ones lie beside the repository, and are absent
 * where the shared folder is (the test then skips).
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv, type ValidateFunction } from 'ajv'
import ajvFormats from 'ajv-formats'

const ROOT = '../shared/adcp/schemas'
const FINISHED = 'test/support/adcp-3.0.json'
export type SchemaRelease = '3.0.6' | '3.1.19' | '3.2.0-beta.5'

export const SCHEMAS_ABSENT = existsSync(ROOT)
  ? false
  : `${ROOT} is absent: the protocol's schemas are not checked`

const compilers = new Map<SchemaRelease, { ajv: Ajv; ids: Map<string, string> }>()

type Schema = { $id: string }
const read = (file: string) => JSON.parse(readFileSync(file, 'utf8'))

function schemasOf(release: SchemaRelease): [name: string, Schema][] {
  if (release === '3.0.6') return Object.entries(read(FINISHED) as Record<string, Schema>)
  const folder = join(ROOT, release)
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  return files.filter((file) => file.endsWith('.json')).map((file) => [file, read(join(folder, file))])
}

function compilerOf(release: SchemaRelease): { ajv: Ajv; ids: Map<string, string> } {
  const known = compilers.get(release)
  if (known) return known
  const ajv = new Ajv({ strict: false, allErrors: true, logger: false, code: { optimize: false } })
  ajvFormats.default(ajv)
  const ids = new Map<string, string>()
  for (const [name, schema] of schemasOf(release)) {
    ajv.addSchema(schema)
    ids.set(name, schema.$id)
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
