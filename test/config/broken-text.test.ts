/** A configuration with a secret at every place that may have one, whose text is broken: no message and no warning holds any of it. */
import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import { test } from 'tap'
import { ConfigError, parseConfig } from '../../src/config/load.js'
import { proven } from '../support/proven.js'

const PIECE = 'Zq7x' // of which every secret is made, so that one which was cut in two is found as well
const SECRET = PIECE.repeat(10)
const DIGEST = 'ab'.repeat(32)

const BLOCK = `listen:
  host: 127.0.0.1
  drain: 5s
egress:
  hosts:
    a.example: http://127.0.0.1:4900
registries:
  - url: https://registry.example
    refresh: "1h"
    headers:
      x-key: ${SECRET}
upstreams:
  - id: acme
    url: https://agent.example/mcp
    protocol: mcp
    auth:
      type: bearer
      token: ${SECRET}
    account_prices: withheld
  - url: https://two.example/mcp?token=${SECRET}
    auth: {type: bearer, token: ${SECRET}}
  - url: https://three.example/mcp
    auth: { type: header, name: x-api-key, value: "${SECRET}" }
callers:
  keys:
    - id: buyer
      token_sha256: ${DIGEST}
      credentials: {acme: {type: bearer, token: ${SECRET}}, two.example/mcp: {type: header, name: k, value: '${SECRET}'}}
      accounts:
        main:
          acme: {account_id: ${SECRET}}
storage:
  url: postgres://user:${SECRET}@db.example/x
  key: [ ${SECRET}, ${SECRET} ]
webhooks: {signing_key: {id: k, private_key: ${SECRET}}}
log: {level: info}
`

const JSON_TEXT = JSON.stringify(
  {
    registries: [{ url: 'https://registry.example', headers: { 'x-key': SECRET, 'x-other': SECRET } }],
    upstreams: [
      {
        id: 'acme',
        url: 'https://agent.example/mcp',
        auth: { type: 'header', name: 'x-key', value: SECRET },
      },
    ],
    callers: {
      keys: [
        {
          ...{ id: 'buyer', token_sha256: DIGEST, accounts: { main: { acme: { account_id: SECRET } } } },
          credentials: { acme: { type: 'bearer', token: SECRET } },
        },
      ],
    },
    events: { public_url: 'https://me.example', signing_key: { id: 'k', private_key: SECRET } },
    storage: { url: `postgres://user:${SECRET}@db.example/x`, key: SECRET },
  },
  undefined,
  1,
)

/** A place among the characters of the text, mostly one near a secret. */
const place = fc.record({ near: fc.boolean(), which: fc.nat(), by: fc.integer({ min: -14, max: 3 }) })
type Place = typeof place extends fc.Arbitrary<infer T> ? T : never

function indexOf(text: string, { near, which, by }: Place): number {
  const secrets = [...text.matchAll(/(?:Zq7x)+/g)].map(({ index }) => index)
  const at = (near && secrets[which % Math.max(1, secrets.length)]) || which % text.length
  return Math.min(text.length, Math.max(0, at + by))
}

const INSERTED = [
  ...[
    ':',
    ': ',
    ' ',
    '\n',
    '  ',
    '\t',
    ',',
    ', ',
    '-',
    '- ',
    '#',
    ' #',
    '? ',
    '"',
    "'",
    '`',
    '@',
    '%',
    '|',
    '>',
    '|\n',
  ],
  ...[
    '{',
    '}',
    '[',
    ']',
    '&',
    '&a ',
    '*',
    '*a ',
    '!',
    '!a ',
    '!!str ',
    '!!map ',
    '<<: ',
    '---\n',
    '\\',
    '$',
    '}, {',
    ']: ',
  ],
]
const PAIRS: [string, string][] = [
  ['{', '}'],
  ['[', ']'],
  ['"', '"'],
  ["'", "'"],
  ['{', '}: x'],
  ['[', ']: x'],
  ['? ', ''],
]

/** One way to break a text. */
const edit: fc.Arbitrary<(text: string) => string> = fc.oneof(
  fc.tuple(place, fc.constantFrom(...INSERTED)).map(([at, what]) => (text: string) => {
    const index = indexOf(text, at)
    return text.slice(0, index) + what + text.slice(index)
  }),
  fc.tuple(place, fc.constantFrom(1, 1, 1, 2)).map(([at, count]) => (text: string) => {
    const index = indexOf(text, at)
    return text.slice(0, index) + text.slice(index + count)
  }),
  fc
    .tuple(place, fc.constantFrom(':', ' ', ', ', ',', '=', '\n', ':  ? '))
    .map(([at, what]) => (text: string) => {
      const colon = text.lastIndexOf(':', indexOf(text, at))
      return colon < 0 ? text : text.slice(0, colon) + what + text.slice(colon + 1).trimStart()
    }),
  fc.tuple(fc.nat(), fc.constantFrom(...PAIRS)).map(([which, [before, after]]) => (text: string) => {
    const count = [...text.matchAll(/(?:Zq7x)+/g)].length
    let at = 0
    return text.replace(/(?:Zq7x)+/g, (secret) =>
      at++ === which % Math.max(1, count) ? before + secret + after : secret,
    )
  }),
  fc.tuple(fc.nat(), fc.constantFrom(-4, -2, -1, 1, 2, 4)).map(([which, by]) => (text: string) => {
    const lines = text.split('\n')
    const at = which % lines.length
    const line = lines[at] ?? ''
    lines[at] = by > 0 ? ' '.repeat(by) + line : line.replace(new RegExp(`^ {0,${-by}}`), '')
    return lines.join('\n')
  }),
)

/** What the loader says of a text; empty when it accepts it. */
function saidOf(text: string): string {
  try {
    parseConfig('tributary.yaml', text, {})
    return ''
  } catch (error) {
    if (error instanceof ConfigError) return error.message + JSON.stringify(error.problems)
    throw error
  }
}

test('however a text is broken, no message and no warning has a piece of a secret', async (t) => {
  const warnings: string[] = []
  const onWarning = ({ message }: Error) => warnings.push(message)
  process.on('warning', onWarning)
  t.teardown(() => process.off('warning', onWarning))
  let refused = 0
  const text = fc.constantFrom(BLOCK, BLOCK, JSON_TEXT)
  const edits = fc.array(edit, { minLength: 1, maxLength: 3 })
  const broken = fc.tuple(text, edits).map(([whole, all]) => all.reduce((sum, each) => each(sum), whole))
  proven(
    t,
    400,
    fc.property(broken, (written) => {
      const said = saidOf(written)
      if (said !== '') refused += 1
      assert.doesNotMatch(said, new RegExp(PIECE, 'i'), written)
    }),
  )
  await setImmediate()
  t.notMatch(warnings.join('\n'), new RegExp(PIECE, 'i'))
  t.ok(refused > 100, `${refused} texts were refused`)
})

const KEYS: Record<string, string> = {
  'a space too few': `{ type: bearer, token:${SECRET} }`,
  'a comma for a colon': `{ type: bearer, token, ${SECRET} }`,
  'a key alone': `{ type: bearer, ? ${SECRET} }`,
  'an anchor': `{ type: bearer, &a ${SECRET} }`,
  'a tag': `{ type: bearer, !a ${SECRET} }`,
  'a list as key': `{ type: bearer, [${SECRET}]: x }`,
  'a mapping as key': `{ type: bearer, {token: ${SECRET}}: x }`,
}

for (const [what, auth] of Object.entries(KEYS)) {
  test(`a secret that became a name is not shown: ${what}`, async (t) => {
    const warnings: string[] = []
    const onWarning = ({ message }: Error) => warnings.push(message)
    process.on('warning', onWarning)
    t.teardown(() => process.off('warning', onWarning))
    for (const text of [
      `upstreams:\n  - url: https://a.example/mcp\n    auth:\n      ${auth}\n`,
      `webhooks:\n  signing_key:\n\n    ${auth}\n`,
      `registries:\n  - url: https://a.example\n    headers:\n      ${auth}\n`,
      `callers:\n  keys:\n    - credentials:\n        ${auth}\n      id: a\n`,
      `callers:\n  keys:\n    - accounts:\n        main: ${auth}\n      id: a\n`,
    ]) {
      const said = saidOf(text)
      t.match(said, /line 4: /, text)
      t.notMatch(said, new RegExp(PIECE, 'i'), text)
    }
    await setImmediate()
    t.same(warnings, [])
  })
}

test('an error says which setting was meant, and in which line', async (t) => {
  const auth = `{\n  type: bearer,\n  token:${SECRET} }`
  t.match(
    saidOf(`upstreams: [ { url: "https://a.example/mcp", auth: ${auth} } ]`),
    'line 3: upstreams[0].auth[…]: there is no such setting; did you mean token?',
  )
  t.match(
    saidOf(`upstreams: [ { url: "https://a.example/mcp?token=${SECRET}" } ]
callers: { keys: [ { id: a, token_sha256: ${DIGEST}, credentials: { a.exampel/mcp: { type: none } } } ] }`),
    'got another name; did you mean the url of upstreams[0]?',
  )
})
