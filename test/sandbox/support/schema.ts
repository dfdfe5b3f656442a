/** The protocol's JSON Schemas as validators; absent when the shared folder is (a test then skips). */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv, type ValidateFunction } from 'ajv'
import ajvFormats from 'ajv-formats'

const ROOT = '../shared/adcp/schemas/3.1.19'

export const schemasAbsent = existsSync(ROOT)
  ? false
  : `${ROOT} is absent: nothing is checked against the schemas`

let ajv: Ajv | undefined

function loaded(): Ajv {
  if (ajv) return ajv
  ajv = new Ajv({ strict: false })
  ajvFormats.default(ajv)
  for (const file of readdirSync(ROOT, { recursive: true, encoding: 'utf8' })) {
    if (file.endsWith('.json')) ajv.addSchema(JSON.parse(readFileSync(join(ROOT, file), 'utf8')))
  }
  return ajv
}

/** A validator of one schema, such as `signals/get-signals-response.json`. */
export function schema(name: string): ValidateFunction {
  const validate = loaded().getSchema(`/schemas/3.1.19/${name}`)
  if (!validate) throw new Error(`no schema ${name}`)
  return validate
}
