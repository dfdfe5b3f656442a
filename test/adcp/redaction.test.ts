import { test } from 'tap'
import { redacted, redactedValue, secretsInUrl, shownUrl } from '../../src/adcp/redaction.js'

const SECRET = 'north-4f9a1c/77+x'

test('a known secret goes from a text in every spelling it may come back in', async (t) => {
  const spoken = [
    `no such token ${SECRET}.`,
    `https://a.example/?x=${encodeURIComponent(SECRET)}`,
    `{"seen":${JSON.stringify(SECRET)}}`,
    `Basic ${Buffer.from(SECRET).toString('base64')}`,
  ]
  for (const text of spoken) {
    const clean = redacted(text, [SECRET])
    t.notOk(clean.includes('4f9a1c'), clean)
    t.notOk(clean.includes(Buffer.from(SECRET).toString('base64')), clean)
    t.match(clean, /\[secret\]/)
  }
})

test('what looks like a credential goes too, and what does not stays', async (t) => {
  const gone = [
    'Authorization: Bearer abc123def456',
    'the key "api_key": "k-123456" is unknown',
    'access_token=ya29.a0Af_1234 is over',
    'postgres://user:pass@db.example/x failed',
    'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl',
    'sk_live_abcdefghijklmnop',
  ]
  const told = /abc123|k-123456|ya29|user:pass|eyJhb|abcdefghijkl/
  for (const text of gone) t.notMatch(redacted(text), told)
  const stays = [
    'token: expired',
    'HTTP 401 at https://a.example/mcp?tenant=5',
    'code: INVALID_REQUEST',
    'basic audiences of 2024',
    'the bearer of bad news',
  ]
  for (const text of stays) t.equal(redacted(text), text)
})

test('a url is shown without user, fragment and credentials', async (t) => {
  t.equal(
    shownUrl('https://u:p@a.example/mcp?api_key=123&tenant=5&sig=x#f'),
    'https://a.example/mcp?tenant=5',
  )
  t.equal(shownUrl('https://a.example/mcp?key=123'), 'https://a.example/mcp')
  t.equal(shownUrl('https://a.example/mcp'), 'https://a.example/mcp')
  t.equal(shownUrl('https://a.example/mcp?x=%zz'), 'https://a.example/mcp?x=%zz')
  for (const query of ['', 'a=1&&b=2', '&', 'a=1&']) {
    t.equal(shownUrl(`https://a.example/mcp?${query}`), `https://a.example/mcp?${query}`)
  }
  t.same(secretsInUrl('https://user:passw%40rd9@a.example/mcp?api_key=12345678&tenant=5'), [
    'passw@rd9',
    '12345678',
  ])
})

test('a value is redacted wherever a text stands in it', async (t) => {
  const value = {
    code: 'X',
    list: [`told ${SECRET}`, 7, null],
    access_token: 'short',
    [SECRET]: { deep: SECRET },
  }
  t.same(redactedValue(value, [SECRET]), {
    code: 'X',
    list: ['told [secret]', 7, null],
    access_token: '[secret]',
    '[secret]': { deep: '[secret]' },
  })
})

test('the time that a text takes grows with its length alone', async (t) => {
  const units = [
    '-token',
    'token-',
    'a-',
    'a+',
    'eyJ-',
    'eyJaaaaaaaa.',
    'bearer ',
    'token=',
    'token  ',
    '://',
    'sk-',
    '=',
  ]
  const LENGTH = 100_000
  for (const unit of units) {
    const text = unit.repeat(LENGTH / unit.length)
    const before = process.cpuUsage()
    redacted(text)
    redactedValue({ [`${text}!`]: text })
    shownUrl(`https://a.example/?${text}`)
    const { user } = process.cpuUsage(before)
    t.ok(user < 500_000, `${JSON.stringify(unit)} took ${user / 1_000} ms`)
  }
})
