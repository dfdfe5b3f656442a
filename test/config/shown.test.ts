import { generateKeyPairSync } from 'node:crypto'
import { test } from 'tap'
import { parseConfig } from '../../src/config/load.js'

const SECRET = 'planted-and-never-shown-4711-0815-secret'
const DIGEST = 'ab'.repeat(32)

test('the configuration that operators are shown holds no secret, and everything else', (t) => {
  const config = {
    registries: [{ url: 'https://registry.example/', headers: { 'x-own': SECRET } }],
    upstreams: [
      { id: 'northwind', url: 'https://northwind.example/mcp', auth: { type: 'bearer', token: SECRET } },
      {
        id: 'gullwing',
        url: `https://gullwing.example/mcp?token=${SECRET}`,
        auth: { type: 'header', name: 'x-key', value: SECRET },
        seeds: ['coffee drinkers', `Bearer ${SECRET}`],
      },
    ],
    callers: {
      keys: [
        {
          ...{ id: 'acme', token_sha256: DIGEST },
          accounts: { acc: { northwind: { account_id: 'nw_77' } } },
          credentials: { northwind: { type: 'bearer', token: SECRET } },
        },
      ],
    },
    storage: { url: `postgres://tributary:${SECRET}@db.example/tributary`, key: [SECRET, `${SECRET}2`] },
  }
  const { privateKey } = generateKeyPairSync('ed25519')
  const jwk = { ...privateKey.export({ format: 'jwk' }), kid: 'planted' }
  const text = JSON.stringify({ ...config, events: { signing_key: JSON.stringify(jwk) } })
  const shown = parseConfig('test', text, {}).shown()
  t.notMatch(shown, /planted/)
  t.notOk(shown.includes(DIGEST))
  for (const kept of [
    'northwind.example',
    'gullwing',
    'registry.example',
    'coffee drinkers',
    'nw_77',
    'acme',
    'db.example',
    'x-key',
  ]) {
    t.ok(shown.includes(kept), kept)
  }
  t.match(shown, /token: "\[secret\]"/)
  t.end()
})

test('a secret from the environment is not shown either', (t) => {
  const text = `storage: { url: "file:./data", key: "\${STORAGE_KEY}" }`
  const shown = parseConfig('test', text, { STORAGE_KEY: SECRET }).shown()
  t.equal(shown, 'storage:\n  url: file:./data\n  key: "[secret]"\n')
  t.end()
})
