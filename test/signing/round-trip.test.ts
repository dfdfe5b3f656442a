import { generateKeyPairSync, sign } from 'node:crypto'
import { test } from 'tap'
import { createKeySets, isUsable, publicJwk, type SigningKey } from '../../src/signing/key.js'
import {
  createSignedSend,
  createSigner,
  REQUESTS,
  signatureBase,
  targetOf,
  WEBHOOKS,
} from '../../src/signing/signature.js'
import { createReplayGuard, createVerifier } from '../../src/signing/verify.js'

const NOW = 1_800_000_000_000
const URL = 'https://agent.example/mcp?b=2&a=1'
const BODY = '{"a":{"x":1},"b":[{"x":1},{"x":2}]}'

const KEYS: SigningKey[] = [
  { keyId: 'one', privateKey: generateKeyPairSync('ed25519').privateKey },
  { keyId: 'two', privateKey: generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey },
]

function setUp(key: SigningKey, now = () => NOW) {
  const sign = createSigner(key, REQUESTS)
  const jwk = publicJwk(key)
  const verify = createVerifier({
    profile: REQUESTS,
    keyOf: (keyid) => (keyid === key.keyId ? { owner: 'me', jwk } : 'unknown'),
    replay: createReplayGuard({ now }),
    now,
  })
  let count = 0
  const message = (body = BODY, url = URL) => {
    count += 1
    const headers = sign(url, body, NOW, `nonce-of-at-least-22-${count}`)
    return { method: 'POST', url, headers, body: Buffer.from(body) }
  }
  return { message, verify }
}

test('what is signed is verified, once', async (t) => {
  for (const key of KEYS) {
    const { message, verify } = setUp(key)
    const signed = message()
    t.same(await verify(signed), { kind: 'verified', owner: 'me', keyid: key.keyId })
    t.same(await verify(signed), { kind: 'rejected', code: 'request_signature_replayed' })
    t.same(await verify(message()), { kind: 'verified', owner: 'me', keyid: key.keyId })
  }
})

test('nothing that is signed can be changed', async (t) => {
  for (const key of KEYS) {
    const { message, verify } = setUp(key)
    const signed = message()
    const refused = async (change: object, code: string) =>
      t.same(await verify({ ...signed, ...change }), { kind: 'rejected', code }, JSON.stringify(change))
    await refused({ body: Buffer.from(BODY.replace('1', '3')) }, 'request_signature_digest_mismatch')
    await refused({ method: 'PUT' }, 'request_signature_invalid')
    await refused({ url: 'https://agent.example/mcp' }, 'request_signature_invalid')
    await refused({ url: 'https://other.example/mcp?b=2&a=1' }, 'request_signature_invalid')
    const { 'content-type': _, ...untyped } = signed.headers
    await refused({ headers: untyped }, 'request_signature_components_incomplete')
    await refused(
      { headers: { ...signed.headers, 'content-type': 'text/plain' } },
      'request_signature_invalid',
    )
    const input = signed.headers['signature-input'] as string
    const twice = { ...signed.headers, 'signature-input': `${input};tag="adcp/request-signing/v1"` }
    await refused({ headers: twice }, 'request_signature_header_malformed')
    t.match(await verify(signed), { kind: 'verified' }, 'and what was refused has used up no nonce')
  }
})

test('a signature covers the type of a body, and of none where there is none', async (t) => {
  const [key] = KEYS as [SigningKey]
  const { verify } = setUp(key)
  const covered = ['@method', '@target-uri', '@authority']
  const signed = (body: string, nonce: string) => {
    const said = { created: NOW / 1_000, expires: NOW / 1_000 + 300, nonce: `nonce-of-at-least-22-${nonce}` }
    const texts = Object.entries({ ...said, keyid: key.keyId, alg: 'ed25519', tag: REQUESTS.tag })
    const params = texts.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(';')
    const input = `(${covered.map((name) => `"${name}"`).join(' ')});${params}`
    const message = { method: 'POST', url: URL, headers: {}, body: Buffer.from(body) }
    const target = targetOf(URL)
    const base = (target && signatureBase(covered, input, message, target)) ?? ''
    const signature = sign(null, Buffer.from(base), key.privateKey).toString('base64url')
    return { ...message, headers: { 'signature-input': `sig1=${input}`, signature: `sig1=:${signature}:` } }
  }
  t.match(await verify(signed('', 'a')), { kind: 'verified' })
  t.match(await verify(signed(BODY, 'b')), { code: 'request_signature_components_incomplete' })
})

test('a signature holds for its time, give or take a minute of the clocks', async (t) => {
  const [key] = KEYS as [SigningKey]
  let now = NOW
  const { message, verify } = setUp(key, () => now)
  for (const seconds of [-60, 360]) {
    now = NOW + seconds * 1_000
    t.match(await verify(message()), { kind: 'verified' }, `${seconds} seconds after it was made`)
    now += Math.sign(seconds) * 1_000
    t.match(await verify(message()), { code: 'request_signature_window_invalid' })
  }
})

test('a signature without its input, or an input without its signature, is no unsigned request', async (t) => {
  const { message, verify } = setUp(KEYS[0] as SigningKey)
  const signed = message()
  for (const name of ['signature', 'signature-input']) {
    const headers = { ...signed.headers, [name]: undefined }
    t.same(await verify({ ...signed, headers }), {
      ...{ kind: 'rejected', code: 'request_signature_header_malformed' },
    })
  }
  t.same(await verify({ ...signed, headers: {} }), { kind: 'unsigned' })
})

test('only a key that was made for it vouches', (t) => {
  for (const key of KEYS) {
    const jwk = publicJwk(key)
    const [right, wrong] =
      key.keyId === 'one'
        ? (['ed25519', 'ecdsa-p256-sha256'] as const)
        : (['ecdsa-p256-sha256', 'ed25519'] as const)
    t.ok(isUsable(jwk, right, ['request-signing']))
    t.notOk(isUsable(jwk, wrong, ['request-signing']))
    t.notOk(isUsable(jwk, right, ['webhook-signing']))
    for (const [name, value] of Object.entries({
      ...{ kty: 'RSA', crv: 'P-384', alg: 'none', use: 'enc' },
      ...{ key_ops: ['sign'], adcp_use: undefined },
    }))
      t.notOk(isUsable({ ...jwk, [name]: value }, right, ['request-signing']), name)
    t.notOk(isUsable({ ...jwk, key_ops: 'verify' }, right, ['request-signing']), 'a text is no list')
  }
  t.end()
})

test('of keys with one id, that of its owner is found', async (t) => {
  const find = createKeySets({
    sources: ['one', 'other'].map((owner) => ({ owner, keys: [{ kid: 'k', x: owner }] })),
    send: () => Promise.reject(new Error('nothing is fetched')),
    now: () => NOW,
  })
  t.match(await find('k', 'other'), { owner: 'other', jwk: { x: 'other' } })
  t.match(await find('k'), { owner: 'one', jwk: { x: 'one' } })
  t.equal(await find('k', 'nobody'), 'unknown')
  t.equal(await find('another', 'one'), 'unknown')
})

test('only the operations that an agent names are signed', async (t) => {
  const send = createSignedSend({
    send: async ({ headers }) => {
      throw new Error(headers && 'signature' in headers ? 'signed' : 'unsigned')
    },
    sign: createSigner(KEYS[0] as SigningKey, REQUESTS),
    wish: () => ({ operations: ['activate_signal'], digest: true, padded: false }),
    now: () => NOW,
  })
  for (const [name, how] of [
    ['activate_signal', 'signed'],
    ['get_signals', 'unsigned'],
  ] as const) {
    const body = JSON.stringify({ method: 'tools/call', params: { name } })
    const request = { url: URL, method: 'POST' as const, headers: {}, body, timeoutMs: 1, maxBytes: 1 }
    await t.rejects(send(request), { message: how })
  }
})

test('a webhook`s signature is no request`s', async (t) => {
  const [key] = KEYS as [SigningKey]
  const { verify } = setUp(key)
  const headers = createSigner(key, WEBHOOKS)(URL, BODY, NOW, 'a nonce'.padEnd(30, '-').replace(' ', '-'))
  const verified = await verify({ method: 'POST', url: URL, headers, body: Buffer.from(BODY) })
  t.same(verified, { kind: 'rejected', code: 'request_signature_tag_invalid' })
})

test('a body that says one name twice is refused, wherever it does', async (t) => {
  const { message, verify } = setUp(KEYS[0] as SigningKey)
  const refused = { kind: 'rejected', code: 'request_body_malformed' }
  for (const body of [
    '{"a":1,"a":2}',
    '{"x":{"a":1,"b":[1,{"a":2}],"a":3}}',
    '{"a":1,"\\u0061":2}',
    '[{"a":"{\\"b\\":1}","a":1}]',
  ]) {
    t.same(await verify(message(body)), refused, body)
  }
  for (const body of ['{"a":{"a":1},"b":"a","c":["a","a"]}', '[{"a":1},{"a":1}]', '{"\\"a":1,"a":2}', '{}']) {
    t.match(await verify(message(body)), { kind: 'verified' }, body)
  }
})

test('nonces are forgotten when their signatures are over, and never before', async (t) => {
  let now = NOW
  const K = { owner: 'o', keyid: 'k' }
  const replay = createReplayGuard({ now: () => now, mostPerKey: 2 })
  t.equal(await replay.take(K, 'a', NOW / 1_000 + 360), 'fresh')
  t.equal(await replay.take(K, 'b', NOW / 1_000 + 360), 'fresh')
  t.notOk(replay.hasRoom(K))
  t.ok(replay.hasRoom({ owner: 'o', keyid: 'another' }))
  now += 360_000
  t.notOk(replay.hasRoom(K))
  now += 11_000
  t.ok(replay.hasRoom(K))
  t.equal(await replay.take(K, 'a', now / 1_000 + 360), 'fresh')
})

test('an owner with many keys, or many owners, leave room for those who have used little', async (t) => {
  const replay = createReplayGuard({ now: () => NOW, mostPerKey: 3, mostPerOwner: 4, most: 8, share: 2 })
  const until = NOW / 1_000 + 360
  const admitted = async (owner: string, keyid: string, nonce: string) => {
    const hasRoom = replay.hasRoom({ owner, keyid })
    if (hasRoom) await replay.take({ owner, keyid }, nonce, until)
    return hasRoom
  }
  const all = async (owner: string, count: number) => {
    let room = 0
    for (let at = 0; at < count; at += 1) room += Number(await admitted(owner, `k${at % 5}`, `${at}`))
    return room
  }
  t.equal(await all('greedy', 100), 4, 'however many keys it publishes')
  t.equal(await all('greedy too', 100), 4)
  t.equal(await all('modest', 2), 2, 'all are full, and there is room')
  t.equal(await all('modest', 1), 0, 'for its share')
  t.equal(await all('another', 2), 2, 'of each')
})
