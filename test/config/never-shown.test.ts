/** What an error of the configuration says when a secret is what breaks the file, or stands where it does not belong. */
import { test } from 'tap'
import { messageOf } from '../support/config-message.js'

const SECRET = 'pr0ductionS3cret'

const withToken = (token: string) =>
  `upstreams:\n  - url: https://b.example/mcp\n    auth:\n      type: bearer\n      token: ${token}\n`

const UNQUOTED = [
  ...[
    `*${SECRET}`,
    `|${SECRET}`,
    `>${SECRET}`,
    `}${SECRET}`,
    `]${SECRET}`,
    `!${SECRET}!y z`,
    `{ *${SECRET} }`,
  ],
  ...[`%${SECRET}`, `@${SECRET}`, `"${SECRET}"x`, `'${SECRET}`, `${SECRET}: x`, `- ${SECRET}`, `[${SECRET}`],
  ...[
    `"${SECRET}\\q"`,
    `&a &${SECRET} x`,
    `!<${SECRET}`,
    `!!float ${SECRET}\n  x`,
    `\`${SECRET}`,
    `? ${SECRET}`,
  ],
]

test('a token that is no YAML without quotes is not quoted by the error, which says its line', (t) => {
  for (const token of UNQUOTED) {
    const said = messageOf(withToken(token))
    t.notMatch(said, SECRET, token)
    t.match(said, /line [456]: |accepted/, token)
  }
  t.match(
    messageOf(withToken(`*${SECRET}`)),
    'line 5: the file: expected aliases (*name) of anchors (&name) that stand before them, got another; ' +
      'a text that begins with * needs quotes',
  )
  t.match(
    messageOf(withToken(`|${SECRET}`)),
    'line 5: the file: expected YAML or JSON, got a text that begins with a character of YAML',
  )
  t.end()
})

test('a secret of digits is no text, and is not shown', (t) => {
  const said = messageOf(withToken('48151623421234567'))
  t.match(said, 'line 5: upstreams[0].auth.token: expected a text, got a number')
  t.notMatch(said, '4815')
  t.end()
})

test('of a url that cannot be used, nothing is shown that may be a secret', (t) => {
  for (const url of [
    ...[`HTTPS://u:${SECRET}@h.example`, ` https://u:${SECRET}@h.example`, `ftp://u:${SECRET}@h.example`],
    ...[`u:${SECRET}@h.example`, `https:/u:${SECRET}@h.example`, `https://us er:${SECRET}@h.example`],
    ...[`https://h.example/#${SECRET}`, `https://h.example/?k=${SECRET}`, `//u:${SECRET}@h.example`],
    ...[`https://u:${SECRET}@h.example/`, `https://u/x:${SECRET}@h.example/#`],
  ]) {
    for (const place of ['registries', 'upstreams']) {
      const said = messageOf(`${place}: [ { url: ${JSON.stringify(url)} } ]`)
      if (said !== 'accepted') t.notMatch(said, SECRET, url)
    }
  }
  t.end()
})

test('a value in the place of something else is not shown', (t) => {
  for (const text of [
    `callers: { keys: ${SECRET} }`,
    `callers: { keys: [ ${SECRET} ] }`,
    `callers: ${SECRET}`,
    `upstreams: [ { url: "https://a.example", auth: { type: Bearer ${SECRET} } } ]`,
    `upstreams: [ { url: "https://a.example", auth: { type: header, name: "x-key: ${SECRET}", value: a } } ]`,
    `registries: [ { url: "https://a.example", headers: { "authorization: Bearer ${SECRET}": x } } ]`,
    `egress: { hosts: { "u:${SECRET}@a.example": "http://127.0.0.1:1" } }`,
    `events: { signing_key: 15 }\nstorage: { key: ${SECRET} }`,
  ]) {
    const said = messageOf(text)
    t.match(said, 'expected', text)
    t.notMatch(said, SECRET)
  }
  t.end()
})

test('what a variable of the environment holds is not shown in any place', (t) => {
  const text = `sandbox: "\${A_SECRET}"`
  t.match(messageOf(text, { A_SECRET: SECRET }), `sandbox: expected true or false, got "\${A_SECRET}"`)
  t.end()
})
