/** What the rest of the product reads from a configuration: bound upstreams, limits, events, storage keys. */
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { messageOf } from '../support/config-message.js'

const DIGEST = '0a'.repeat(32)
const UPSTREAMS = [
  { id: 'northwind', url: 'https://Signals.Northwind.example:443/mcp' },
  { url: 'https://signals.meridian.example/mcp' },
]
const read = (file: object) => parseConfig('test', JSON.stringify(file), {})
const withKey = (key: object) => ({
  upstreams: UPSTREAMS,
  callers: { keys: [{ id: 'acme', token_sha256: DIGEST, ...key }] },
})

const refusal = (file: object) => messageOf(JSON.stringify(file))

test('accounts and credentials are bound to canonical urls, by id or by url', (t) => {
  const { callers } = read(
    withKey({
      accounts: {
        gold: {
          northwind: { account_id: 'nw_77' },
          'https://SIGNALS.meridian.example/mcp': { account_id: 'md_1' },
        },
      },
      credentials: {
        northwind: { type: 'bearer', token: 't' },
        'https://only.registry.example/mcp': { type: 'header', name: 'x-key', value: 'v' },
      },
    }),
  )
  const [key] = callers.keys
  t.equal(key?.role, 'buyer', 'unless the file says otherwise')
  t.same(key?.accounts.gold, {
    'https://signals.northwind.example/mcp': { account_id: 'nw_77' },
    'https://signals.meridian.example/mcp': { account_id: 'md_1' },
  })
  t.same(Object.keys(key?.credentials ?? {}), [
    'https://signals.northwind.example/mcp',
    'https://only.registry.example/mcp',
  ])
  t.end()
})

test('an agent is named by its url without a credential, or by a configured url as it stands', (t) => {
  const url = 'https://hub.example/mcp'
  const named = (name: string) => withKey({ credentials: { [name]: { type: 'bearer', token: 't' } } })
  const own = { ...named(`${url}?code=us`), upstreams: [{ url: `${url}?code=us` }] }
  t.same(Object.keys(read(own).callers.keys[0]?.credentials ?? {}), [url])
  t.match(
    refusal(named(`${url}?code=us`)),
    /or an agent's url without a credential in its query, got another name$/m,
  )
  const twice = withKey({
    accounts: { gold: { own: { account_id: 'x' }, [`${url}?code=us`]: { account_id: 'y' } } },
  })
  const message = refusal({ ...twice, upstreams: [{ id: 'own', url: `${url}?code=us` }] })
  t.match(message, /expected an upstream that no other name here means/)
  t.notMatch(message, 'code=us')
  for (const side of ['include', 'exclude']) {
    const discovery = { [side]: { urls: [`${url}?code=us`] } }
    t.match(refusal({ discovery }), /without what looks like a credential in its query/)
  }
  t.end()
})

test('a name that means no upstream is refused, with the nearest names', (t) => {
  const named = (name: string) => withKey({ credentials: { [name]: { type: 'bearer', token: 's3cret' } } })
  const message = refusal(named('nortwind'))
  t.match(message, 'callers.keys[0].credentials[…]: expected the id of one of upstreams[]')
  t.match(message, 'got another name; did you mean "northwind"?')
  t.notMatch(message, 's3cret')
  t.match(
    refusal(named('signals.meridian.example')),
    'did you mean the url of upstreams[1]?',
    'an id that was derived from a host is no name: another agent could take it',
  )
  t.match(refusal(named('zzz')), /got another name$/m, 'nothing is near')
  t.match(
    refusal(withKey({ accounts: { gold: { norhtwind: { account_id: 'x' } } } })),
    'callers.keys[0].accounts[…][…]: expected the id of one of upstreams[]',
  )
  t.match(
    refusal(
      withKey({
        accounts: {
          gold: {
            northwind: { account_id: 'x' },
            'https://signals.northwind.example/mcp': { account_id: 'y' },
          },
        },
      }),
    ),
    'expected an upstream that no other name here means, got another name of one above',
  )
  t.end()
})

test('limits have defaults and are sizes, counts and times', (t) => {
  t.same(read({}).limits, {
    rowsPerUpstream: 2_000_000,
    rowBytes: 262_144,
    pageBytes: 33_554_432,
    providerDomainsPerUpstream: 10_000,
    providerBytes: 1_073_741_824,
    memoryBytes: 8_589_934_592,
    underWayBytes: 536_870_912,
    walkMs: 7_200_000,
  })
  const { limits } = read({ limits: { rows_per_upstream: 5, row_bytes: '2KiB', walk_time: '90s' } })
  t.match(limits, { rowsPerUpstream: 5, rowBytes: 2_048, walkMs: 90_000, providerBytes: 1_073_741_824 })
  t.end()
})

test('a signing key is a JSON Web Key, or PEM with an id; the earlier place is still read', (t) => {
  const { privateKey } = generateKeyPairSync('ed25519')
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
  const jwk = JSON.stringify({ ...privateKey.export({ format: 'jwk' }), kid: 'k1' })
  const keyOf = (file: object) => read(file).events.signingKey
  for (const file of [
    { events: { signing_key: jwk } },
    { events: { signing_key: { id: 'k1', private_key: pem } } },
    { webhooks: { signing_key: { id: 'k1', private_key: pem } } },
  ]) {
    t.equal(keyOf(file)?.keyId, 'k1')
    t.ok(keyOf(file)?.privateKey.equals(privateKey))
  }
  t.equal(keyOf({}), undefined)
  t.match(
    refusal({ events: { signing_key: jwk }, webhooks: { signing_key: { id: 'k1', private_key: pem } } }),
    'webhooks.signing_key: expected nothing, as events.signing_key is the same setting',
  )
  for (const [namedCurve, isTaken] of [
    ['P-256', true],
    ['P-384', false],
  ] as const) {
    const { privateKey: other } = generateKeyPairSync('ec', { namedCurve })
    const entry = { id: 'k2', private_key: other.export({ type: 'pkcs8', format: 'pem' }) }
    t.equal(refusal({ events: { signing_key: entry } }) === 'accepted', isTaken, namedCurve)
  }
  const unnamed = JSON.stringify({ ...privateKey.export({ format: 'jwk' }), kid: '' })
  t.match(refusal({ events: { signing_key: unnamed } }), 'a JSON Web Key with a kid')
  const { publicUrl, brandJsonUrl } = read({
    events: { public_url: 'https://a.example/', brand_json_url: 'https://a.example/b.json' },
  }).events
  t.same([publicUrl, brandJsonUrl], ['https://a.example', 'https://a.example/b.json'])
  t.end()
})

test('storage keys are one or a list, the newest first', (t) => {
  const [old, fresh] = ['o'.repeat(32), 'f'.repeat(32)]
  const keys = (key?: unknown) =>
    read({ storage: { url: 'file:./data', ...(key ? { key } : {}) } }).storage.keys
  t.same(keys(), [])
  t.same(keys(old), [old])
  t.same(keys([fresh, old]), [fresh, old])
  t.end()
})

test('the digest of a key is held in lower case', (t) => {
  const { callers } = read({ callers: { keys: [{ id: 'acme', token_sha256: 'AB'.repeat(32) }] } })
  t.equal(callers.keys[0]?.tokenSha256, 'ab'.repeat(32))
  t.end()
})

test('the url that callers sign has no slash at its end', (t) => {
  t.equal(read({ listen: { public_url: 'https://a.example/' } }).listen.publicUrl, 'https://a.example')
  t.end()
})

test('rates are those of the file, and one for the currency that they are measured in', (t) => {
  const worth = (more: object) =>
    read({ currencies: { as_of: '2026-11-01', rates: { GBP: 1.3 }, ...more } }).rates?.worth
  t.same(worth({}), new Map(Object.entries({ GBP: 1.3, USD: 1 })))
  t.same(worth({ in: 'EUR' }), new Map(Object.entries({ GBP: 1.3, EUR: 1 })))
  t.end()
})
