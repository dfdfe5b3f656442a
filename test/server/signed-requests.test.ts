import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { type Test, test } from 'tap'
import { Type } from '../../src/adcp/schema.js'
import type { Send } from '../../src/net/send.js'
import { createAdmission } from '../../src/server/door/admission.js'
import { publicJwk, type SigningKey } from '../../src/signing/key.js'
import { createSigner, REQUESTS } from '../../src/signing/signature.js'
import type { Task } from '../../src/tasks/task.js'
import { SKIP, vectorsOf } from '../signing/vectors.js'
import { adcpSchema, SCHEMAS_ABSENT } from '../support/adcp-schema.js'
import { BUYER_TOKEN, OTHER_TOKEN, sha256, startServer } from '../support/server-fixture.js'

const PUBLIC_URL = 'https://tributary.example'
const REQUIRED = 'request_signature_required'
const newKey = (keyId: string): SigningKey => ({
  keyId,
  privateKey: generateKeyPairSync('ed25519').privateKey,
})
const key = newKey('buyer-key')
const stranger = newKey('stranger-key')

/** A task that changes something, so that what it takes to call it shows. */
const activate: Task = {
  ...{ name: 'activate_signal', title: 'Activate', description: 'Activates.', mutating: true },
  request: Type.Object({}),
  handle: (_input, { caller }) => ({ kind: 'answer', message: 'Done.', fields: { by: caller.id } }),
}

const noSend: Send = async () => ({ kind: 'failed', reason: 'unreachable', message: 'nothing is there' })

type Setting = { required?: boolean; send?: Send; url?: string; revoked?: string[]; others?: boolean }

/** `others`: whether there are callers that need not sign. */
async function start(
  t: Test,
  { required = false, send = noSend, url, revoked = [], others = true }: Setting = {},
) {
  const source = url === undefined ? { keys: [publicJwk(key)] } : { url }
  const server = await startServer(t, {
    ...{ publicUrl: PUBLIC_URL, tasks: [activate], send },
    callers: {
      anonymous: others ? 'metadata' : 'deny',
      keys: [
        {
          id: 'buyer',
          tokenSha256: sha256(BUYER_TOKEN),
          role: 'buyer',
          signing: { source, required, revoked },
        },
        ...(others ? [{ id: 'other', tokenSha256: sha256(OTHER_TOKEN), role: 'buyer' as const }] : []),
      ],
    },
  })
  const bodyOf = (name: string, args: object) =>
    JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } })
  const signatureOf = (by: SigningKey, path: string, body: string) =>
    createSigner(by, REQUESTS)(PUBLIC_URL + path, body, Date.now(), randomBytes(16).toString('base64url'))
  const call = async (
    name: string,
    { by, bearer, args = {}, more = {} }: { by?: SigningKey; bearer?: string; args?: object; more?: object },
  ) => {
    const body = bodyOf(name, args)
    const headers = {
      'mcp-protocol-version': '2025-06-18',
      ...(bearer && { authorization: `Bearer ${bearer}` }),
      ...(by && signatureOf(by, '/mcp', body)),
      ...more,
    }
    return server.post('/mcp', body, headers)
  }
  return { ...server, call, bodyOf, signatureOf }
}

type Started = Awaited<ReturnType<typeof start>>
const codeOf = ({ status, headers }: Awaited<ReturnType<Started['call']>>) =>
  status === 401 ? headers.get('www-authenticate') : status
const challenge = (code: string) => `Signature error="${code}"`

test('who must sign is turned away at the door, however the body is written', async (t) => {
  const { post, bodyOf } = await start(t, { required: true })
  const headers = { authorization: `Bearer ${BUYER_TOKEN}`, 'mcp-protocol-version': '2025-06-18' }
  const body = bodyOf('activate_signal', {})
  const deep = `{"context":${'['.repeat(59)}${']'.repeat(59)},${body.slice(1)}`
  for (const written of [
    body,
    ` \n${body}`,
    `\ufeff${body}`,
    `[${body}]`,
    body.replace('activate', '\\u0061ctivate'),
    deep,
  ]) {
    t.equal(codeOf(await post('/mcp', written, headers)), challenge(REQUIRED), written.slice(0, 20))
  }
})

test('a signature alone says who calls, once', async (t) => {
  const { call, post, bodyOf, signatureOf } = await start(t)
  const reply = await call('activate_signal', { by: key })
  t.equal(reply.json.result.structuredContent.by, 'buyer')
  const body = bodyOf('activate_signal', {})
  const headers = signatureOf(key, '/mcp', body)
  t.equal((await post('/mcp', body, headers)).status, 200)
  t.equal(codeOf(await post('/mcp', body, headers)), challenge('request_signature_replayed'))
})

test('a key that the operator revoked signs nothing, though its set still has it', async (t) => {
  const { call } = await start(t, { revoked: ['buyer-key'] })
  const reply = await call('activate_signal', { by: key, bearer: BUYER_TOKEN })
  t.equal(codeOf(reply), challenge('request_signature_key_revoked'))
  t.equal((await call('activate_signal', { bearer: BUYER_TOKEN })).status, 200, 'its owner may go on without')
})

test('a signature that does not stand is refused, whatever bearer is beside it', async (t) => {
  const { call, post, bodyOf, signatureOf } = await start(t)
  const body = bodyOf('activate_signal', {})
  const bearer = { authorization: `Bearer ${BUYER_TOKEN}` }
  const signed = (): Record<string, string> => ({ ...signatureOf(key, '/mcp', body), ...bearer })
  const refused = async (headers: Record<string, string>, code: string, sent = body) =>
    t.equal(codeOf(await post('/mcp', sent, headers)), challenge(code), code)
  await refused({ ...signatureOf(stranger, '/mcp', body), ...bearer }, 'request_signature_key_unknown')
  await refused(signed(), 'request_signature_digest_mismatch', bodyOf('activate_signal', { more: 1 }))
  await refused({ ...signatureOf(key, '/a2a', body), ...bearer }, 'request_signature_invalid')
  const { signature: _, ...half } = signed()
  await refused(half, 'request_signature_header_malformed')
  await refused({ ...signed(), signature: 'sig1=:AAAA:' }, 'request_signature_invalid')
  const reply = await call('activate_signal', { by: key, bearer: OTHER_TOKEN })
  t.equal(codeOf(reply), challenge('request_signature_key_unknown'), 'another caller`s signature')
  const other = await call('activate_signal', { by: key, more: { 'x-adcp-auth': OTHER_TOKEN } })
  t.equal(
    codeOf(other),
    challenge('request_signature_key_unknown'),
    'in whatever header the caller says who it is',
  )
  const nobody = await call('activate_signal', { by: key, bearer: 'the-key-of-nobody' })
  t.equal(nobody.status, 401, 'a signature makes no wrong key right')
  t.match(reply.json.error.data.adcp_error, { code: 'AUTH_REQUIRED' })
})

test('who must sign may read without a signature and change nothing, over both transports', async (t) => {
  const { call, post, signatureOf } = await start(t, { required: true })
  t.equal(codeOf(await call('activate_signal', { bearer: BUYER_TOKEN })), challenge(REQUIRED))
  t.equal((await call('get_signals', { bearer: BUYER_TOKEN })).status, 200)
  t.equal((await call('activate_signal', { bearer: OTHER_TOKEN })).json.result.structuredContent.by, 'other')
  t.equal((await call('activate_signal', { by: key })).json.result.structuredContent.by, 'buyer')
  const nobody = (await call('activate_signal', {})).json.result.structuredContent
  t.equal(nobody.adcp_error.code, 'AUTH_REQUIRED')
  t.match(nobody.adcp_error.message, 'needs credentials', 'who has no key is not asked for a signature')

  const skill = { skill: 'activate_signal', input: {} }
  const message = { messageId: 'm', role: 'user', kind: 'message', parts: [{ kind: 'data', data: skill }] }
  const a2a = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'message/send', params: { message } })
  const bearer = { authorization: `Bearer ${BUYER_TOKEN}` }
  t.equal(codeOf(await post('/a2a', a2a, bearer)), challenge(REQUIRED))
  t.equal((await post('/a2a', a2a, signatureOf(key, '/a2a', a2a))).status, 200)
  const hidden = a2a.replace('"skill"', '"\\u0073kill"')
  t.equal(codeOf(await post('/a2a', hidden, bearer)), challenge(REQUIRED), 'however the name is written')
})

test('who has no key is asked for a signature where everybody must sign', async (t) => {
  const { call } = await start(t, { required: true, others: false })
  t.equal(codeOf(await call('activate_signal', {})), challenge(REQUIRED))
  const reading = await call('get_signals', {})
  t.equal(reading.status, 401)
  t.not(codeOf(reading), challenge(REQUIRED))
  const mustSign = (anonymous: 'deny' | 'metadata', ...required: boolean[]) => {
    const keys = required.map((must, at) => ({
      ...{ id: `caller-${at}`, role: 'buyer' as const, destinations: [], accounts: {}, credentials: {} },
      signing: { source: { keys: [publicJwk(key)] }, required: must, revoked: [] },
    }))
    const admission = createAdmission({ callers: { anonymous, keys }, send: noSend, now: Date.now })
    return admission.signatures()?.mustSign()
  }
  t.same(
    [mustSign('deny', true, true), mustSign('deny', true, false), mustSign('metadata', true, true)],
    [true, false, false],
  )
})

test('a shared secret for webhooks is taken from signed requests only', async (t) => {
  const { call, post, bodyOf } = await start(t)
  const authentication = { schemes: ['HMAC-SHA256'], credentials: 'a shared secret of 32 characters' }
  const push_notification_config = { url: 'https://buyer.example/hook', authentication }
  for (const args of [
    { push_notification_config },
    { accounts: [{ notification_configs: [{ url: 'https://b.example', authentication }] }] },
  ]) {
    t.equal(codeOf(await call('activate_signal', { bearer: BUYER_TOKEN, args })), challenge(REQUIRED))
    t.equal((await call('activate_signal', { by: key, args })).status, 200)
  }
  const plain = { push_notification_config: { url: 'https://buyer.example/hook' } }
  const none = { push_notification_config: { url: 'https://buyer.example/hook', authentication: null } }
  for (const args of [plain, none])
    t.equal((await call('activate_signal', { bearer: BUYER_TOKEN, args })).status, 200)
  const hidden = bodyOf('activate_signal', { push_notification_config }).replace(
    'authentication',
    '\\u0061uthentication',
  )
  const bearer = { authorization: `Bearer ${BUYER_TOKEN}` }
  t.equal(codeOf(await post('/mcp', hidden, bearer)), challenge(REQUIRED), 'however the name is written')
})

test('where nobody signs, signatures are ignored and nothing needs one', async (t) => {
  const { post } = await startServer(t, { tasks: [activate] })
  const params = { name: 'activate_signal', arguments: { push_notification_config: { authentication: {} } } }
  const reply = await post(
    '/mcp',
    { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
    { authorization: `Bearer ${BUYER_TOKEN}`, signature: 'sig1=:AAAA:' },
  )
  t.equal(reply.status, 200)
})

test('keys are read from where they are published, and a new one is found with its first signature', async (t) => {
  let keys = [publicJwk(stranger)]
  let reads = 0
  let now = Date.now()
  const url = 'https://buyer.example/jwks.json'
  const send: Send = async (request) => {
    reads += 1
    const body = Buffer.from(JSON.stringify({ keys }))
    return { kind: 'reply', status: 200, headers: {}, body, url: request.url }
  }
  t.intercept(Date, 'now', { value: () => now })
  const { call } = await start(t, { url, send })
  t.equal(codeOf(await call('activate_signal', { by: key })), challenge('request_signature_key_unknown'))
  keys = [publicJwk(key)]
  t.equal(codeOf(await call('activate_signal', { by: key })), challenge('request_signature_key_unknown'))
  t.equal(reads, 1, 'a stranger cannot make us read again at will')
  now += 31_000
  t.equal((await call('activate_signal', { by: key })).status, 200)
  t.equal((await call('activate_signal', { by: key })).status, 200)
  t.equal(reads, 2)
})

test('a key set that cannot be read is no reason to let anybody in', async (t) => {
  const { call } = await start(t, { url: 'https://buyer.example/jwks.json' })
  const reply = await call('activate_signal', { by: key, bearer: BUYER_TOKEN })
  t.equal(codeOf(reply), challenge('request_signature_jwks_unavailable'))
})

test('every published request without a signature that needs one has its like here', {
  skip: SKIP,
}, async (t) => {
  const { call } = await start(t, { required: true })
  const unsigned = vectorsOf('request-signing', 'negative').filter(
    ({ expected_outcome: { error_code } }) => error_code === REQUIRED,
  )
  for (const { file, request } of unsigned) {
    const args = JSON.parse(request.body ?? '{}')
    t.equal(codeOf(await call('activate_signal', { bearer: BUYER_TOKEN, args })), challenge(REQUIRED), file)
  }
  t.equal(unsigned.length, 3)
})

test('capabilities declare signatures exactly as far as they work, and our keys are where they say', async (t) => {
  const facts = (signing: object) => () => ({
    ...{ providerDomains: [], servesOwned: false, accountOverlays: false },
    signing,
  })
  const brandJsonUrl = 'https://operator.example/.well-known/brand.json'
  const algorithm = 'ed25519'
  const declared = async (signing: object, signingKey?: SigningKey) => {
    const server = await startServer(t, {
      ...{ facts: facts(signing), tasks: [activate], publicUrl: PUBLIC_URL },
      ...(signingKey && { signingKey }),
    })
    const { identity, webhook_signing, request_signing, ...rest } = await server.call(
      'get_adcp_capabilities',
      {},
    )
    if (!SCHEMAS_ABSENT) {
      const validate = await adcpSchema('protocol/get-adcp-capabilities-response.json')
      const whole = { identity, webhook_signing, request_signing, ...rest }
      t.ok(validate(JSON.parse(JSON.stringify(whole))), JSON.stringify(validate.errors))
    }
    return { server, told: { identity, webhook_signing, request_signing } }
  }
  const nothing = { identity: undefined, webhook_signing: undefined, request_signing: undefined }
  t.same((await declared({})).told, nothing)
  t.same((await declared({ algorithm })).told, nothing, 'a key that nobody can find is not declared')
  const { told, server } = await declared({ algorithm, brandJsonUrl, requests: { required: true } }, key)
  t.same(told, {
    identity: { brand_json_url: brandJsonUrl },
    webhook_signing: {
      ...{ supported: true, profile: 'adcp/webhook-signing/v1', algorithms: ['ed25519'] },
      legacy_hmac_fallback: true,
    },
    request_signing: {
      ...{ supported: true, covers_content_digest: 'either' },
      ...{ supported_for: ['activate_signal'], required_for: ['activate_signal'] },
    },
  })
  const brand = await server.send('/.well-known/brand.json', {})
  t.same(
    brand.json.agents.map(({ url }: { url: string }) => url),
    [`${PUBLIC_URL}/mcp`, `${PUBLIC_URL}/a2a`],
  )
  t.equal(brand.json.agents[0].jwks_uri, `${PUBLIC_URL}/.well-known/jwks.json`)
  const jwks = await server.send('/.well-known/jwks.json', {})
  t.same(jwks.json.keys, [publicJwk(key)])
  t.notOk(jwks.text.includes('"d"'), 'the private half stays here')
  t.equal((await (await declared({})).server.send('/.well-known/jwks.json', {})).status, 404)
})

test('a body of one long list is answered like any other without a signature', async (t) => {
  const { post } = await start(t, { required: true })
  const body = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":[0${',0'.repeat(24_000)}]}}`
  const { status } = await post('/mcp', body, { authorization: `Bearer ${BUYER_TOKEN}` })
  t.equal(status, 200)
})

test('a body that no transport would read is not read to see whether it must be signed', async (t) => {
  const { url } = await start(t, { required: true, others: false })
  const ask = (path: string, body: string) =>
    fetch(url + path, { method: 'POST', body, headers: { 'content-type': 'application/json' } })
  const call = (more: string) =>
    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"activate_signal","arguments":{"ext":{"a":[${more}0]}}}}`
  const challenge = async (body: string) => (await ask('/mcp', body)).headers.get('www-authenticate')
  t.match(await challenge(call('')), REQUIRED)
  t.match(await challenge(call('0,'.repeat(24_000))), REQUIRED)
  t.match(await challenge(call('0,'.repeat(25_000))), /^Bearer/)
})
