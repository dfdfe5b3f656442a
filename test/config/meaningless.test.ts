/** What a file may say by its schema and cannot mean: refused with the path, what was expected and what came. */
import { test } from 'tap'
import { parseConfig } from '../../src/config/load.js'
import { toRetention } from '../../src/config/quantities.js'
import { messageOf } from '../support/config-message.js'

const DIGEST = '0a'.repeat(32)
const agent = (more: string) => `upstreams: [ { url: "https://a.example/mcp", ${more} } ]`

const REFUSED: Record<string, [text: string, ...said: string[]]> = {
  'a refresh of nothing': [
    'defaults: { refresh: 0s }',
    'defaults.refresh: expected a duration of at least 1s, got "0s"',
  ],
  "a registry's refresh of nothing": [
    'registries: [ { url: "https://r.example" }, { url: "https://s.example", refresh: 0m } ]',
    'registries[1].refresh: expected a duration of at least 1s, got "0m"',
  ],
  "a provider's refresh below a second": [
    'authorization: { refresh: 999ms }',
    'authorization.refresh: expected a duration of at least 1s, got "999ms"',
  ],
  'answers that are kept for less than callers may be told': [
    'storage: { retention: { answers: 30m } }',
    'storage.retention.answers: expected a duration from 1h to 7d, got "30m"',
  ],
  'calls that are forgotten before the answers that follow from them': [
    'storage: { retention: { answers: 3d, calls: 2d } }',
    'storage.retention.calls: expected calls that are kept at least as long as answers, got "2d"',
  ],
  'a ledger that nobody can export in time': [
    'storage: { retention: { ledger: 1h } }',
    'storage.retention.ledger: expected a duration of at least 1d, got "1h"',
  ],
  'no time for a call': [
    'defaults: { timeout: 0s }',
    'defaults.timeout: expected a duration from 100ms to 1h, got "0s"',
  ],
  'slices dropped before they are read again': [
    'defaults: { refresh: 10m, drop_after: 5m, stale_after: 10m }',
    'defaults.drop_after: expected a duration that is not shorter than refresh, 10m, got "5m"',
  ],
  'a refresh beyond the default age of a slice': [
    'defaults: { refresh: 48h, stale_after: 48h }',
    'defaults.refresh: expected a duration that is not longer than drop_after (24h unless it is set), got "48h"',
  ],
  'slices that are stale before they are read again': [
    'defaults: { refresh: 10m, stale_after: 1m }',
    'defaults.stale_after: expected a duration that is not shorter than refresh, 10m, got "1m"',
  ],
  'two entries of one canonical url': [
    'upstreams: [ { url: "https://a.example/mcp" }, { url: "https://A.example:443/mcp", auth: { type: none } } ]',
    'upstreams[1].url: expected a url that is not the one of upstreams[0], got "https://a.example/mcp"',
  ],
  'two registries of one url': [
    'registries: [ { url: "https://r.example/list" }, { url: "https://R.example/list/" } ]',
    'registries[1].url: expected a url that no other registry has',
  ],
  'an upper-case host': [
    'egress: { hosts: { "A.example": "http://127.0.0.1:1" } }',
    'egress.hosts["A.example"]: expected a.example, as the name stands in urls, got "A.example"',
  ],
  'an origin with a path': [
    'egress: { hosts: { "a.example": "http://127.0.0.1:1/base" } }',
    'egress.hosts["a.example"]: expected an origin such as http://127.0.0.1:4900, without a path',
    'got "http://127.0.0.1:1/base"',
  ],
  'a pointer that is no https url': [
    'authorization: { providers: { a.example: { confirm_pointer: "http://b.example/x.json" } } }',
    'authorization.providers["a.example"].confirm_pointer: expected an https url',
  ],
  'an international name that is not written as urls have it': [
    'authorization: { providers: { "münchen.example": { policy: lenient } } }',
    'expected xn--mnchen-3ya.example, as the name stands in urls, got "münchen.example"',
  ],
  'a policy for a name with a root dot': [
    'authorization: { providers: { "a.example.": { policy: lenient } } }',
    'expected a.example, as the name stands in urls, got "a.example."',
  ],
  'a policy for a url': [
    'authorization: { providers: { "https://a.example/": { policy: lenient } } }',
    'expected a domain name, got "https://a.example/"',
  ],
  'a token that is never sent': [
    agent('auth: { type: none, token: s3cret }'),
    'upstreams[0].auth.token: expected no token, as type is none, got another text',
  ],
  'a header name beside a bearer token': [
    agent('auth: { type: bearer, token: s3cret, name: x-key }'),
    'upstreams[0].auth.name: expected no name, as type is bearer',
  ],
  'an invalid header name': [
    agent('auth: { type: header, name: "x key", value: s3cret }'),
    'upstreams[0].auth.name: expected a header name, got another name',
  ],
  "the connection's own header": [
    agent('auth: { type: header, name: Host, value: s3cret }'),
    'upstreams[0].auth.name: expected a header that is not of the connection itself, got "host"',
  ],
  'a header value of two lines': [
    agent('auth: { type: header, name: x-key, value: "s3cret\\r\\nx: y" }'),
    'upstreams[0].auth.value: expected a text that can stand in a header, got another text',
  ],
  "an invalid name among a registry's headers": [
    'registries: [ { url: "https://r.example", headers: { "x:y": s3cret } } ]',
    'registries[0].headers[…]: expected a header name, got another name',
  ],
  'an address to listen on that no url can name': [
    'listen: { host: "fe80::1%eth0" }',
    'listen.host: expected an address without a zone, which no url has',
  ],
  'a host that is no name': ['listen: { host: "%zz" }', 'listen.host: expected a host name or an address'],
  'a public url with a query': [
    'listen: { public_url: "https://a.example/?key=s3cret" }',
    'listen.public_url: expected a url without credentials, query and fragment, got "https://a.example/?…"',
  ],
  'a place for webhooks with a query': [
    'events: { public_url: "https://a.example/?key=s3cret" }',
    'events.public_url: expected a url without credentials, query and fragment, got "https://a.example/?…"',
  ],
  'a brand.json with a user': [
    'events: { brand_json_url: "https://u:s3cret@a.example/brand.json" }',
    'events.brand_json_url: expected a url without credentials, query and fragment',
  ],
  "a registry's url with a fragment": [
    'registries: [ { url: "https://r.example/#list" } ]',
    'registries[0].url: expected a url without credentials, query and fragment',
  ],
  'a YAML alias of what holds it': [
    'listen: {}\npreview_releases: &a [*a]',
    'line 2: the file: expected aliases (*name) of what does not hold them, got one inside of its own anchor',
  ],
  'a YAML alias of what holds what holds it': ['registries: &a [ { headers: *a } ]', 'line 1: the file'],
  'a YAML alias of nothing': ['defaults: *times', 'the file: expected aliases (*name) of anchors (&name)'],
  'one token for two callers': [
    `callers: { keys: [ { id: a, token_sha256: ${DIGEST} }, { id: b, token_sha256: ${DIGEST.toUpperCase()} } ] }`,
    'callers.keys[1].token_sha256: expected a token that no other key has, got another text',
  ],
  'a webhook network that is none': [
    'egress: { webhook_networks: [ "ten" ] }',
    'egress.webhook_networks[0]: expected a network such as 127.0.0.0/8, got "ten"',
  ],
  'a row that could hold nothing': [
    'limits: { row_bytes: 10B }',
    'limits.row_bytes: expected a size of at least 1KiB, got "10B"',
  ],
  'a time for a call that no timer holds': [
    'defaults: { timeout: 30d }',
    'defaults.timeout: expected a duration from 100ms to 1h, got "30d"',
  ],
  'a walk below a second': [
    'limits: { walk_time: 999ms }',
    'limits.walk_time: expected a duration of at least 1s, got "999ms"',
  ],
  'memory for no feed': [
    'limits: { memory: 15MiB, provider_bytes: 1023KiB, page_bytes: 63KiB, row_bytes: 1KiB }',
    'limits.memory: expected a size of at least 16MiB, got "15MiB"',
    'limits.provider_bytes: expected a size of at least 1MiB, got "1023KiB"',
    'limits.page_bytes: expected a size of at least 64KiB, got "63KiB"',
  ],
  'a password without a user in the url of a registry': [
    'registries: [ { url: "https://:s3cret@r.example" } ]',
    'registries[0].url: expected a url without credentials, query and fragment',
  ],
  'a password without a user in the url of an agent': [
    'upstreams: [ { url: "https://:s3cret@a.example/mcp" } ]',
    'upstreams[0].url: expected a url without user, password and fragment',
  ],
  'an origin with a query': [
    'egress: { hosts: { "a.example": "http://127.0.0.1:1/?x=s3cret" } }',
    'egress.hosts["a.example"]: expected an origin such as http://127.0.0.1:4900, without a path',
  ],
  "a registry's header value of two lines": [
    'registries: [ { url: "https://r.example", headers: { x-key: "s3cret\\r\\nx: y" } } ]',
    'registries[0].headers[…]: expected a text that can stand in a header, got another text',
  ],
  'a bearer token without a text': [
    agent('auth: { type: bearer, token: "" }'),
    'upstreams[0].auth.token: expected a text, got an empty text',
  ],
  'credentials of a caller that are no mapping': [
    'callers: { keys: [ { id: a, credentials: s3cret } ] }',
    'callers.keys[0].credentials: expected a mapping, got another text',
  ],
  'a long text, of which the beginning is shown': [
    `listen: { host: "${'h'.repeat(70)}:1" }\ndefaults: { refresh: 0s }`,
    `listen.host: expected a host name or an address, without a port, got "${'h'.repeat(59)}\n`,
  ],
  'a value that is missing': [
    'currencies: { as_of: 2026-11-01 }',
    'currencies.rates: expected a value, got nothing',
  ],
  'rates without a rate': ['currencies: { as_of: 2026-11-01, rates: {} }', 'currencies.rates: expected'],
  'a rate without end': [
    'currencies: { as_of: 2026-11-01, rates: { EUR: .inf } }',
    'currencies.rates.EUR: expected a number over 0',
  ],
  'a rate that is no number': [
    'currencies: { as_of: 2026-11-01, rates: { EUR: .nan } }',
    'currencies.rates.EUR: expected a number over 0',
  ],
  'rates of no day': [
    'currencies: { as_of: yesterday, rates: { EUR: 1.1 } }',
    'currencies.as_of: expected a day such as 2026-11-01, got "yesterday"',
  ],
  'a measure that is not worth one of itself': [
    'currencies: { as_of: 2026-11-01, in: EUR, rates: { EUR: 1.1 } }',
    'currencies.rates.EUR: expected nothing: the others are measured in it, got 1.1',
  ],
  'more connections to an upstream than one origin gets': [
    'defaults: { concurrency: 33 }',
    'defaults.concurrency: expected a whole number from 1 to 32, got 33',
  ],
  'a key set without a key': [
    'callers: { keys: [ { id: a, signing: { jwks: { keys: [] } } } ] }',
    'callers.keys[0].signing.jwks.keys: expected',
  ],
  'a user in the url of an agent, which is not sent': [
    'upstreams: [ { url: "https://u:p@a.example/mcp" } ]',
    'upstreams[0].url: expected a url without user, password and fragment',
  ],
  'a key set with a fragment': [
    'callers: { jwt: { issuer: x, audience: y, jwks_url: "https://a.example/k#f" } }',
    'callers.jwt.jwks_url: expected a url without user, password and fragment',
  ],
  'a seed of white space': [agent('seeds: ["  "]'), 'upstreams[0].seeds[0]: expected a question'],
  'nobody included': [
    'discovery: { include: { urls: [] } }',
    'discovery.include: expected urls or members, as nobody is included otherwise',
  ],
  'an agent that is included and excluded': [
    'discovery: { include: { urls: ["https://A.example/mcp"] }, exclude: { urls: ["https://a.example:443/mcp"] } }',
    'discovery.exclude.urls[0]: expected a url that discovery.include does not name',
  ],
  'a grant of two kinds': [
    `callers: { keys: [ { id: a, token_sha256: "${DIGEST}", destinations: [ { type: platform, platform: x, agent_url: "https://a.example" } ] } ] }`,
    'destinations[0].agent_url: expected no agent_url, as type is platform',
  ],
  'a grant for an agent that has no url': [
    `callers: { keys: [ { id: a, token_sha256: "${DIGEST}", destinations: [ { type: agent, agent_url: "https://a..example/" } ] } ] }`,
    "destinations[0].agent_url: expected an agent's url",
  ],
  'a caller called like those without a key': [
    `callers: { keys: [ { id: anonymous, token_sha256: "${DIGEST}" } ] }`,
    'callers.keys[0].id: expected another id',
  ],
  'a port in the host': [
    'listen: { host: "127.0.0.1:80" }',
    'listen.host: expected a host name or an address, without a port',
  ],
  'a way out of service that nobody waits for': [
    'listen: { drain: 601s }',
    'listen.drain: expected a duration of at most 10m, got "601s"',
  ],
  'a proxy that is no network': [
    'listen: { trusted_proxies: [ "10.0.0.1" ] }',
    'listen.trusted_proxies[0]: expected a network such as 127.0.0.0/8',
  ],
  'a row that no answer could hold': [
    'limits: { row_bytes: 64MiB }',
    'limits.row_bytes: expected a size of at most limits.page_bytes, which is 32MiB, got "64MiB"',
  ],
  'an answer larger than all that may be read at once': [
    'limits: { page_bytes: 1GiB }',
    'limits.page_bytes: expected a size of at most limits.under_way, which is 512MiB, got "1GiB"',
  ],
  'less for all answers than for one': [
    'limits: { under_way: 1MiB }',
    'limits.under_way: expected a size of at least limits.page_bytes, which is 32MiB, got "1MiB"',
  ],
  'a size without a unit': ['limits: { row_bytes: "1024" }', 'expected a size such as 256KiB'],
  'a storage key that can be guessed': [
    'storage: { url: "file:./data", key: s3cret }',
    'storage.key: expected a secret of at least 32 characters',
    'got another text',
  ],
  'a signing key that is none': [
    'events: { signing_key: \'{"kty":"oct","k":"s3cret","kid":"1"}\' }',
    'events.signing_key: expected a private Ed25519 or P-256 key',
    'got another text',
  ],
}

for (const [what, [text, ...said]] of Object.entries(REFUSED)) {
  test(`refused: ${what}`, (t) => {
    const message = messageOf(text)
    for (const words of said) t.ok(message.includes(words), `${words}\n    in: ${message}`)
    t.notOk(message.includes('s3cret'), 'no secret is shown')
    t.end()
  })
}

test('no header of the connection itself is sent', (t) => {
  for (const name of ['connection', 'content-length', 'host', 'keep-alive', 'TE', 'transfer-encoding']) {
    const message = messageOf(agent(`auth: { type: header, name: ${name}, value: x }`))
    t.ok(message.includes('expected a header that is not of the connection itself'), name)
  }
  t.end()
})

const TAKEN = [
  'defaults: { timeout: 100ms, refresh: 1s, stale_after: 1s, drop_after: 1s, concurrency: 32 }',
  'defaults: { timeout: 1h }',
  'listen: { drain: 10m, host: "::1" }',
  'limits: { walk_time: 1s, row_bytes: 1KiB, page_bytes: 64KiB, provider_bytes: 1MiB, memory: 16MiB }',
  'limits: { row_bytes: 32MiB, page_bytes: 32MiB, under_way: 32MiB }',
  'storage: { retention: { answers: 1h, calls: 1h, tasks: 1h, ledger: 1d } }',
  'storage: { retention: { answers: 7d } }',
  'currencies: { as_of: 2026-11-01, rates: { USD: 1 } }',
]

test('what stands at a bound is within it', (t) => {
  for (const text of TAKEN) t.equal(messageOf(text), 'accepted', text)
  t.end()
})

test('a confirmed pointer is one however it is spelled', (t) => {
  const text =
    'authorization: { providers: { a.example: { confirm_pointer: "https://B.example:443/x.json" } } }'
  const { authorization } = parseConfig('test', text, {})
  t.same([...authorization.confirmedPointers], [['a.example', 'https://b.example/x.json']])
  t.end()
})

test('what is kept for a time that the file sets is kept for that time', (t) => {
  const HOUR = 3_600_000
  t.same(toRetention({ answers: '1h', calls: '2h', tasks: '3h', ledger: '48h' }), {
    ...{ answersMs: HOUR, callsMs: 2 * HOUR, tasksMs: 3 * HOUR, ledgerMs: 48 * HOUR },
  })
  t.end()
})
