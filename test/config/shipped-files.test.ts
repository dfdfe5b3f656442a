import { hash } from 'node:crypto'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test } from 'tap'
import { loadConfig } from '../../src/config/load.js'

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
})
