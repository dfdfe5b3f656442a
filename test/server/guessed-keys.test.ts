import { generateKeyPairSync } from 'node:crypto'
import { SignJWT } from 'jose'
import { test } from 'tap'
import { BUYER_TOKEN, OPERATOR_TOKEN, OTHER_TOKEN, startServer } from '../support/server-fixture.js'

const GUESSER = '203.0.113.7'
const ELSEWHERE = '203.0.113.8'
const BURST = 20

/** A server on a clock of the test, which believes what a proxy says of addresses. */
async function start(t: Parameters<typeof startServer>[0], more: Parameters<typeof startServer>[1] = {}) {
  const clock = { now: 1_000_000 }
  const server = await startServer(t, { now: () => clock.now, trustedProxies: ['127.0.0.0/8'], ...more })
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'get_adcp_capabilities' } }
  const ask = async (key: string, address = GUESSER) => {
    const headers = { authorization: `Bearer ${key}`, 'x-forwarded-for': address }
    return await server.post('/mcp', body, headers)
  }
  const lines = () => server.lines.map((line) => JSON.parse(line) as Record<string, unknown>)
  const refused = () => lines().filter(({ msg }) => msg === 'refused at the door')
  return { ...server, clock, ask, refused }
}

test('who guesses keys is refused before they are looked at, for as long as it goes on', async (t) => {
  const { ask, clock, refused, send } = await start(t)
  t.equal((await ask(OTHER_TOKEN)).status, 200, 'a caller at the same address')
  for (let guess = 0; guess < BURST; guess += 1) t.equal((await ask(`guess-${guess}`)).status, 401)

  const spent = await ask('guess-more')
  t.match(spent, { status: 429, json: { error: { data: { adcp_error: { code: 'RATE_LIMITED' } } } } })
  t.equal(spent.headers.get('retry-after'), '1')
  t.equal((await ask(BUYER_TOKEN)).status, 429, 'a right guess is not seen to be right')
  t.equal((await ask(OTHER_TOKEN)).status, 200, 'who was there before goes on')
  t.equal((await ask(BUYER_TOKEN, ELSEWHERE)).status, 200, 'nobody elsewhere notices')
  t.equal((await ask(BUYER_TOKEN)).status, 429, 'nor is it known here because it is elsewhere')

  for (const path of ['/explain?ref=x', '/metrics', '/api/registry/agents']) {
    const headers = { authorization: `Bearer ${OPERATOR_TOKEN}`, 'x-forwarded-for': GUESSER }
    t.match((await send(path, { headers })).status, path === '/metrics' ? 429 : Number, path)
  }

  clock.now += 1_000
  t.equal((await ask(BUYER_TOKEN)).status, 200, 'a second later one is looked at')

  const counted = (await send('/metrics', {})).text
  t.match(counted, /tributary_refused_requests_total\{reason="wrong_credentials"\} 20/)
  t.match(counted, /tributary_refused_requests_total\{reason="too_many_guesses"\} 4/)
  t.match(refused()[0], {
    ...{ level: 30, method: 'POST', path: '/mcp', status: 401, reason: 'wrong_credentials' },
    address: GUESSER,
    requestId: String,
  })
  t.notMatch(JSON.stringify(refused()), /guess-|buyer-token/)
})

test('what is no key or token of ours is refused, and is no guess at one', async (t) => {
  const { ask, send } = await start(t)
  const asBasic = async () =>
    (await send('/metrics', { headers: { authorization: 'Basic YTpi', 'x-forwarded-for': GUESSER } })).status
  for (let time = 0; time <= BURST; time += 1) t.equal(await asBasic(), 401)
  t.equal((await ask(BUYER_TOKEN)).status, 200, 'a person behind a proxy that has a password of its own')
  for (let guess = 0; guess <= BURST; guess += 1) await ask('')
  t.equal((await ask(OTHER_TOKEN)).status, 429, 'a Bearer without a token is one')
  t.equal(await asBasic(), 401)
})

test('a caller who came from several addresses before goes on at each of them', async (t) => {
  const { ask } = await start(t)
  for (const address of [ELSEWHERE, GUESSER]) t.equal((await ask(OTHER_TOKEN, address)).status, 200)
  for (let guess = 0; guess <= BURST; guess += 1) await ask(`guess-${guess}`)
  t.equal((await ask(BUYER_TOKEN)).status, 429, 'who was not there before waits')
  t.equal((await ask(OTHER_TOKEN)).status, 200)
})

test('a flood of wrong keys leaves a bounded number of lines, and what was left out is said', async (t) => {
  const { ask, clock, refused, send, call, lines } = await start(t)
  for (let guess = 0; guess < 150; guess += 1) await ask(`guess-${guess}`)
  t.equal(refused().length, 100)
  await call('get_signals', {})
  t.equal(lines.filter((line) => line.includes('"msg":"refused"')).length, 1, 'calls have lines of their own')
  clock.now += 1_000
  await ask('once more')
  t.match(refused().at(-1), { leftOut: 50 })
  t.match((await send('/metrics', {})).text, /too_many_guesses"\} 130/, 'all are counted')
})

test('a token is not verified for who guesses', async (t) => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  let fetched = 0
  const { ask } = await start(t, {
    callers: { anonymous: 'deny', keys: [{ id: 'acme', role: 'buyer' }] },
    jwt: {
      ...{ issuer: 'https://issuer.example', audience: 'us', jwksUrl: 'https://issuer.example/jwks' },
      now: () => 1_000_000,
      async send({ url }) {
        fetched += 1
        const body = Buffer.from('{"keys":[]}')
        return { kind: 'reply', status: 200, headers: {}, body, url }
      },
    },
  })
  const token = await new SignJWT({ sub: 'acme' })
    .setProtectedHeader({ alg: 'ES256', kid: 'k' })
    .sign(privateKey)
  for (let guess = 0; guess < BURST; guess += 1) t.equal((await ask(token)).status, 401)
  const before = fetched
  t.equal((await ask(token)).status, 429)
  t.equal(fetched, before)
})

test('each refused request leaves a line with its reason, whatever answers it', async (t) => {
  const { send, post, refused } = await start(t)
  await send('/nothing?token=s3cret', {})
  await send('/explain?ref=x', {})
  await send('/mcp', { method: 'GET' })
  await post('/mcp', 'x', { 'content-type': 'text/plain' })
  await post('/mcp', '{}', { origin: 'https://evil.example' })
  const told = refused().map(({ path, status, reason }) => `${status} ${path} ${reason}`)
  t.same(told, [
    '404 * not_found',
    '404 * not_found',
    '405 /mcp method_not_allowed',
    '415 /mcp unsupported_media_type',
    '403 /mcp foreign_origin',
  ])
  t.notMatch(JSON.stringify(refused()), /s3cret/)
})
