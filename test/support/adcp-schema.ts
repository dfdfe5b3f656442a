/** The protocol's JSON Schemas as validators; absent when the shared folder is (the test then skips). */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv, type ValidateFunction } from 'ajv'
import ajvFormats from 'ajv-formats'

const ROOT = '../shared/adcp/schemas/3.1.19'

export const SCHEMAS_ABSENT = existsSync(ROOT)
  ? false
  : `${ROOT} is absent: the protocol's schemas are not checked`

/** A validator of one schema, such as `signals/get-signals-response.json`. */
export function adcpSchema(name: string): ValidateFunction {
  const ajv = new Ajv({ strict: false, allErrors: true })
  ajvFormats.default(ajv)
  for (const file of readdirSync(ROOT, { recursive: true, encoding: 'utf8' })) {
    if (file.endsWith('.json')) ajv.addSchema(JSON.parse(readFileSync(join(ROOT, file), 'utf8')))
  }
  const validate = ajv.getSchema(`/schemas/3.1.19/${name}`)
  if (!validate) throw new Error(`No schema ${name}`)
  return validate
}
