import { test } from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { messageOf } from '../support/config-message.js'

const HOUR = 3_600_000

test('a file that says nothing is refused', (t) => {
  for (const text of ['', ' \n', '# registries: []\n', 'null']) {
    t.match(messageOf(text), 'the file: expected settings, or {} for the defaults alone, got nothing')
  }
  t.end()
})

test('a file without a setting is the defaults', (t) => {
  const text =
    'registries: [ { url: "https://r.example/" } ]\nupstreams: [ { url: "https://a.example/mcp" } ]'
  const { file: _, revision: __, shown: ___, limits: ____, ...config } = parseConfig('empty.yaml', text, {})
  t.same(config, {
    listen: { host: '127.0.0.1', port: 8080, publicUrl: undefined, drainMs: 0, trustedProxies: [] },
    registries: [{ url: 'https://r.example', refreshMs: 300_000, headers: {} }],
    upstreams: [
      {
        ...{ id: undefined, url: 'https://a.example/mcp', protocol: undefined, auth: undefined },
        ...{ seeds: [], accountPrices: 'withheld', exclude: false },
      },
    ],
    discovery: { verifiedOnly: false },
    defaults: {
      ...{ timeoutMs: 30_000, refreshMs: 300_000, staleAfterMs: 3_600_000, dropAfterMs: 86_400_000 },
      ...{ concurrency: 4, pageSize: 100, seedsFromBriefs: true },
    },
    authorization: { policy: 'strict', refreshMs: 21_600_000, providers: {}, confirmedPointers: new Map() },
    egress: { allowHttp: false, allowNetworks: [], webhookNetworks: [], hosts: {} },
    callers: {
      ...{ anonymous: 'deny', keys: [], jwt: undefined },
      rateLimit: { perSecond: 2_000, burst: 4_000 },
    },
    events: { brandJsonUrl: undefined, publicUrl: undefined, signingKey: undefined },
    logLevel: undefined,
    storage: {
      ...{ url: 'file:./data', keys: [] },
      retention: { answersMs: 24 * HOUR, callsMs: 30 * 24 * HOUR, tasksMs: 30 * 24 * HOUR },
    },
    ...{ rates: undefined, sandbox: false, previewReleases: [], testController: false },
  })
  t.end()
})

test('a database of several processes gives load balancers time; an address has no slash at its end', (t) => {
  const text = 'listen: { public_url: "https://a.example/" }\nstorage: { url: "postgres://db.example/t" }'
  const { listen } = parseConfig('c', text, {})
  t.match(listen, { drainMs: 5_000, publicUrl: /^https:\/\/a\.example$/ })
  t.end()
})

test('YAML and JSON of the same content are one revision', (t) => {
  const yaml = parseConfig('a', 'listen: { port: 0 }\nregistries:\n  - url: http://127.0.0.1:1/\n', {})
  const json = parseConfig('b', '{"listen":{"port":0},"registries":[{"url":"http://127.0.0.1:1/"}]}', {})
  t.equal(yaml.revision, json.revision)
  t.equal(yaml.registries[0]?.url, 'http://127.0.0.1:1', 'without a trailing slash')
  t.end()
})

test('a problem names its line, its path, what was expected and what came', (t) => {
  const text = [
    'listen: { port: "eighty" }',
    'authorization:',
    '  policy: strickt',
    'defaults: { refresh: 5 minutes, page_size: 500 }',
    'egress: { allow_networks: [ "10.0.0.0/99" ] }',
    'registrys: []',
    'callers: { keys: [ { id: one, token_sha256: secret-in-clear } ] }',
  ].join('\n')
  const message = messageOf(text)
  t.match(message, 'line 1: listen.port: expected a whole number from 0 to 65535, got "eighty"')
  t.match(message, 'line 3: authorization.policy: expected one of strict, lenient, observe, got "strickt"')
  t.match(message, 'line 4: defaults.refresh: expected a duration')
  t.match(message, 'line 4: defaults.page_size: expected a whole number from 1 to 100, got 500')
  t.match(message, 'line 6: […]: there is no such setting; did you mean registries?')
  t.match(message, 'line 7: callers.keys[0].token_sha256: expected 64 hex digits')
  t.notMatch(message, 'secret-in-clear')
  const lines = [...message.matchAll(/line (\d+)/g)].map(([, line]) => Number(line))
  t.same(lines, lines.toSorted(), 'in the order of the file')
  t.match(
    messageOf('defaults: { timeuot: 30s }'),
    'defaults[…]: there is no such setting; did you mean timeout?',
  )
  t.match(messageOf('zzz: 1'), 'line 1: […]: there is no such setting; docs/configuration.md lists them')
  t.match(
    messageOf('egress: { allow_networks: [ "10.0.0.0/99" ] }'),
    'egress.allow_networks[0]: expected a net',
  )
  t.end()
})

test('variables come from the environment, and a missing one is an error', (t) => {
  const reference = `\${A_TOKEN}`
  const text = `upstreams:\n  - url: https://a.example/mcp\n    auth: { type: bearer, token: "${reference}" }\n`
  const config = parseConfig('c', text, { A_TOKEN: 's3: {cret}' })
  t.same(config.upstreams[0]?.auth, { type: 'bearer', token: 's3: {cret}' }, 'taken as text, not as YAML')
  t.match(messageOf(text), 'line 3: upstreams[0].auth.token: expected the environment variable A_TOKEN')
  const seeds = `upstreams: [ { url: "https://a.example/mcp", seeds: [ "of ${reference}" ] } ]`
  t.same(parseConfig('c', seeds, { A_TOKEN: '' }).upstreams[0]?.seeds, ['of '], 'an empty one is set')
  t.end()
})

test('keys that callers sign with must be usable, public, and of one place', (t) => {
  const jwk = (more: object) =>
    JSON.stringify({
      ...{
        kid: 'k',
        kty: 'OKP',
        crv: 'Ed25519',
        alg: 'EdDSA',
        x: 'gWUqzATUcUco5Q8fZZXn8aWwb7DQbYGBiqUzLiSDDJo',
      },
      ...{ use: 'sig', key_ops: ['verify'], adcp_use: 'request-signing' },
      ...more,
    })
  const caller = (id: string, signing: string) => `{ id: ${id}, signing: ${signing} }`
  const config = (...callers: string[]) => `callers: { keys: [ ${callers.join(', ')} ] }`
  const inline = (...keys: string[]) => `{ jwks: { keys: [ ${keys.join(', ')} ] }, required: true }`
  const [key] = parseConfig('c', config(caller('a', inline(jwk({})))), {}).callers.keys
  t.match(key?.signing, { required: true, source: { keys: [{ kid: 'k' }] } }, 'needs neither key nor JWT')
  t.match(messageOf(config(caller('a', '{}'))), 'signing: expected one of jwks and jwks_url')
  t.match(
    messageOf(config(caller('a', inline(jwk({ adcp_use: 'other' }))))),
    'jwks.keys[0]: expected a public',
  )
  t.match(messageOf(config(caller('a', inline(jwk({ kid: '' }))))), 'keys[0].kid: expected an id')
  const optional = parseConfig('c', config(caller('a', `{ jwks: { keys: [ ${jwk({})} ] } }`)), {})
  t.equal(optional.callers.keys[0]?.signing?.required, false, 'unless the file says so')
  const secret = messageOf(config(caller('a', inline(jwk({ d: 'private-half' })))))
  t.match(secret, 'expected a public key, got a private one')
  t.notMatch(secret, 'private-half')
  const twice = config(caller('a', inline(jwk({}))), caller('b', inline(jwk({}))))
  t.match(messageOf(twice), 'callers.keys[1].signing.jwks.keys[0].kid: expected an id that no other key has')
  t.end()
})

test('rules across settings are checked too', (t) => {
  t.match(messageOf('upstreams: [ { url: "https://a.example", auth: { type: bearer } } ]'), 'auth.token')
  const key = `{ id: twin, token_sha256: ${'0a'.repeat(32)} }`
  t.match(messageOf(`callers: { keys: [ ${key}, ${key} ] }`), 'callers.keys[1].id')
  const agent = '{ id: twin, url: "https://a.example/mcp" }'
  t.match(messageOf(`upstreams: [ ${agent}, ${agent} ]`), 'upstreams[1].id: expected an id that no other')
  const network = messageOf('egress: { allow_networks: [ "x" ] }')
  t.match(network, 'egress.allow_networks[0]: expected a network such as 127.0.0.0/8, got "x"')
  const grant = `{ id: a, token_sha256: ${'0a'.repeat(32)}, destinations: [ { type: agent, platform: x } ] }`
  t.match(messageOf(`callers: { keys: [ ${grant} ] }`), 'destinations[0].agent_url')
  t.end()
})

test('what is not YAML at all is named with its line', (t) => {
  t.match(messageOf('listen: {\nport: ]'), /line 2: the file: expected YAML or JSON/)
  t.end()
})
