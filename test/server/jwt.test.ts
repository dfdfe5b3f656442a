import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import { type Test, test } from 'tap'
import type { Send } from '../../src/net/send.js'
import { createCallers, createGuesses, createJwtVerifier } from '../../src/server/door/credentials.js'

type Pair = Awaited<ReturnType<typeof generateKeyPair>>
const START = Date.UTC(2026, 0, 1)

/** An issuer whose key set is a real server, and callers that trust it. */
async function trust(t: Test) {
  const keys: { kid: string; pair: Pair }[] = []
  let fetches = 0
  let broken = false
  const server: Server = createServer(async (_request, response) => {
    fetches += 1
    if (broken) return response.writeHead(500).end('oops')
    const jwks = await Promise.all(
      keys.map(async ({ kid, pair }) => ({ ...(await exportJWK(pair.publicKey)), kid, alg: 'ES256' })),
    )
    return response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ keys: jwks }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const send: Send = async ({ url }) => {
    const reply = await fetch(url)
    const body = new Uint8Array(await reply.arrayBuffer())
    return { kind: 'reply', status: reply.status, headers: {}, body, url }
  }
  const clock = { now: START }
  const jwt = createJwtVerifier({
    issuer: 'https://issuer.example',
    audience: 'tributary',
    jwksUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks`,
    send,
    now: () => clock.now,
  })
  const callers = createCallers({
    anonymous: 'deny',
    keys: [{ id: 'acme', role: 'buyer' }],
    jwt,
    guesses: createGuesses(() => clock.now),
  })
  const addKey = async (kid: string) => {
    const pair = await generateKeyPair('ES256')
    keys.push({ kid, pair })
    return pair
  }
  const token = (pair: Pair, kid: string, claims: JWTPayload = {}) =>
    new SignJWT({
      sub: 'acme',
      iss: 'https://issuer.example',
      aud: 'tributary',
      exp: START / 1_000 + 300,
      ...claims,
    })
      .setProtectedHeader({ alg: 'ES256', kid })
      .sign(pair.privateKey)
  const identify = async (value: string) =>
    callers.identify({ authorization: `Bearer ${value}`, address: '127.0.0.1' })
  return {
    ...{ keys, clock, addKey, token, identify },
    fetches: () => fetches,
    breakKeys: () => {
      broken = true
    },
  }
}

test('a token of the issuer is the caller its subject names', async (t) => {
  const { addKey, token, identify, fetches } = await trust(t)
  const pair = await addKey('k1')
  const good = await token(pair, 'k1')
  const who = await identify(good)
  t.equal(who.kind === 'caller' && who.caller.id, 'acme')
  await identify(good)
  t.equal(fetches(), 1, 'the key set is read once')
})

test('a genuine token of a principal without access is denied, not unknown', async (t) => {
  const { addKey, token, identify } = await trust(t)
  const who = await identify(await token(await addKey('k1'), 'k1', { sub: 'stranger' }))
  t.equal(who.kind, 'denied')
})

test('whatever is wrong with a token, the answer is the same', async (t) => {
  const { addKey, token, identify } = await trust(t)
  const pair = await addKey('k1')
  const stranger = await generateKeyPair('ES256')
  const good = await token(pair, 'k1')
  const [header, payload, signature] = good.split('.') as [string, string, string]
  const none = Buffer.from('{"alg":"none"}').toString('base64url')
  const shared = await new SignJWT({ sub: 'acme', iss: 'https://issuer.example', aud: 'tributary' })
    .setProtectedHeader({ alg: 'HS256', kid: 'k1' })
    .setExpirationTime(START / 1_000 + 300)
    .sign(new TextEncoder().encode('the public key as a shared secret, or any'))
  for (const bad of [
    await token(pair, 'k1', { aud: 'somebody else' }),
    await token(pair, 'k1', { iss: 'https://other.example' }),
    await token(pair, 'k1', { exp: START / 1_000 - 31 }),
    await token(pair, 'k1', { nbf: START / 1_000 + 31 }),
    await token(pair, 'k1', { exp: undefined as unknown as number }),
    await token(stranger, 'k1'),
    `${header}.${payload}.${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`,
    `${none}.${payload}.`,
    `${none}.${payload}.${signature}`,
    shared,
    'a.b.c',
  ]) {
    t.same(await identify(bad), { kind: 'unauthenticated', reason: 'invalid' })
  }
})

test('half a minute of clock skew is forgiven', async (t) => {
  const { addKey, token, identify } = await trust(t)
  const pair = await addKey('k1')
  t.equal((await identify(await token(pair, 'k1', { exp: START / 1_000 - 20 }))).kind, 'caller')
  t.equal((await identify(await token(pair, 'k1', { nbf: START / 1_000 + 20 }))).kind, 'caller')
})

test('a remembered token ends with its own time', async (t) => {
  const { addKey, token, identify, clock } = await trust(t)
  const good = await token(await addKey('k1'), 'k1')
  t.equal((await identify(good)).kind, 'caller')
  clock.now += 331_000
  t.equal((await identify(good)).kind, 'unauthenticated')
})

test('a key set that cannot be read is our trouble, not the token holder’s', async (t) => {
  const { addKey, token, identify, breakKeys } = await trust(t)
  const pair = await addKey('k1')
  breakKeys()
  t.equal((await identify(await token(pair, 'k1'))).kind, 'unavailable')
})
