/**
 * The protocol's JSON Schemas as validators. Those of 3.0 come with the protocol's SDK, which the conformance run installs;
 * later ones are in a folder next to the repository. A test skips what is absent.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Ajv, type ValidateFunction } from 'ajv'
import ajvFormats from 'ajv-formats'

const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url))
const ROOT = join(REPOSITORY, '../shared/adcp/schemas')
const OF_3_0 = join(REPOSITORY, 'conformance/node_modules/@adcp/sdk/dist/lib/schemas-data/3.0')

/** Releases of the schemas. Which patch of 3.0 it is depends on the SDK. */
export const SCHEMA_RELEASES = ['3.0', '3.1.19', '3.2.0-beta.5'] as const
export type SchemaRelease = (typeof SCHEMA_RELEASES)[number]

const folderOf = (release: SchemaRelease) => (release === '3.0' ? OF_3_0 : join(ROOT, release))

/** Whether the schemas of a release are there. */
export const hasSchemasOf = (release: SchemaRelease): boolean => existsSync(folderOf(release))

/** Why a test is skipped that needs schemas of 3.1 or later; false when they are there. */
export const SCHEMAS_ABSENT = existsSync(ROOT)
  ? false
  : `${ROOT} is absent: the protocol's schemas are not checked`

const compilers = new Map<SchemaRelease, { ajv: Ajv; ids: Map<string, string> }>()

type Schema = { $id?: string }

/** Those that a file of the release names: neither its bundles nor its lists. */
function schemasOf(release: SchemaRelease): [name: string, Schema][] {
  const folder = folderOf(release)
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const own = files.filter((file) => file.endsWith('.json') && !file.startsWith('bundled'))
  return own.map((file) => [file, JSON.parse(readFileSync(join(folder, file), 'utf8'))])
}

function compilerOf(release: SchemaRelease): { ajv: Ajv; ids: Map<string, string> } {
  const known = compilers.get(release)
  if (known) return known
  const ajv = new Ajv({
    ...{ strict: false, allErrors: true, logger: false, code: { optimize: false } },
    ...{ validateSchema: false, inlineRefs: false }, // the schemas are not ours, and compiling them is most of what they cost
  })
  ajvFormats.default(ajv)
  const ids = new Map<string, string>()
  for (const [name, schema] of schemasOf(release)) {
    if (schema.$id === undefined) continue
    ajv.addSchema(schema)
    ids.set(name, schema.$id)
  }
  compilers.set(release, { ajv, ids })
  return { ajv, ids }
}

/** A validator of one schema, such as `signals/get-signals-response.json`. Throws when the release has no such schema. */
export function adcpSchema(name: string, release: SchemaRelease = '3.1.19'): ValidateFunction {
  const { ajv, ids } = compilerOf(release)
  const validate = ajv.getSchema(ids.get(name) ?? name)
  if (!validate) throw new Error(`No schema ${name} in ${release}`)
  return validate
}
