import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test } from 'tap'
import type { TSchema } from '../../src/adcp/schema.js'
import { loadConfig, parseConfig } from '../../src/config/load.js'
import { ConfigFile } from '../../src/config/schema.js'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../../..')

test('config/sandbox.yaml is valid and its keys are the ones the README shows', async (t) => {
  const config = await loadConfig(resolve(root, 'config/sandbox.yaml'), {})
  t.equal(config.sandbox, true)
  t.same(
    config.callers.keys.map(({ tokenSha256 }) => tokenSha256),
    ['demo-buyer-key', 'demo-operator-key'].map((token) => hash('sha256', token, 'hex')),
  )
})

test('config/production.example.yaml is valid once its secrets are in the environment', async (t) => {
  const path = resolve(root, 'config/production.example.yaml')
  const environment = {
    REGISTRY_TOKEN: 'r',
    NORTHWIND_TOKEN: 'n',
    ACME_NORTHWIND_TOKEN: 'a',
    ACME_TOKEN_SHA256: 'ab'.repeat(32),
    OPERATIONS_TOKEN_SHA256: 'cd'.repeat(32),
  }
  const config = await loadConfig(path, environment)
  t.equal(config.sandbox, false)
  t.match(config.callers.keys, [
    { id: 'operations', role: 'operator' },
    { id: 'acme-buyer', role: 'buyer' },
  ])
  await t.rejects(loadConfig(path, {}), /environment variable REGISTRY_TOKEN/)
  t.same(config.limits, parseConfig('none', '{}', {}).limits, 'the limits are the defaults, as it says')
  const text = await readFile(path, 'utf8')
  for (const name of settings(ConfigFile.properties.limits as TSchema)) t.match(text, `\n  ${name}: `)
})

/** The paths to all values of a schema. A member of any name is called `DOMAIN`, as the only one in the reference. */
function settings(schema: TSchema, path = ''): string[] {
  const { properties, items, patternProperties = {} } = schema
  const below = (named: TSchema, name: string) => settings(named, `${path}${path && '.'}${name}`)
  const [open] = Object.values(patternProperties as Record<string, TSchema>)
  if (properties) {
    return Object.entries(properties as Record<string, TSchema>).flatMap(([name, one]) => below(one, name))
  }
  if (schema.type === 'array') return settings(items, `${path}[]`)
  return open ? below(open, 'DOMAIN') : [path]
}

test('docs/configuration.md has every setting, and names none that is not there', async (t) => {
  const page = await readFile(resolve(root, 'docs/configuration.md'), 'utf8')
  const known = settings(ConfigFile)
  const isIn = (path: string, part: string) => path === part || /^[.[]/.test(path.slice(part.length))
  const named = [...page.matchAll(/`([a-z_]+(?:\[\])?(?:\.[\w[\]]+)*)`/g)].map(([, name = '']) => name)
  t.same(
    known.filter((path) => !named.some((name) => path.startsWith(name) && isIn(path, name))),
    [],
  )
  const rows = [...page.matchAll(/^\| `([^|]*)` \|/gm)].flatMap(([, cell = '']) => cell.split('`, `'))
  t.ok(rows.length > 50, `${rows.length} rows`)
  const whole = rows.map((name) => (name.startsWith('.') ? `callers.keys[]${name}` : name))
  t.same(
    whole.filter((name) => !known.some((path) => path.startsWith(name) && isIn(path, name))),
    [],
  )
})
