/** Every known way to forge a JSON Web Token (RFC 8725), over HTTP against a whole process. */
import { createHmac } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exportJWK, exportSPKI, generateKeyPair, type JWTHeaderParameters, SignJWT } from 'jose'
import { test } from 'tap'
import { startCommand } from '../support/command.js'
import { startHttp } from '../support/upstream-agent.js'

const ISSUER = 'https://issuer.example'
const AUDIENCE = 'tributary'
const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const inAnHour = () => Math.floor(Date.now() / 1_000) + 3_600

test('no forged token opens anything, and all are refused in the same words', {
  timeout: 300_000,
}, async (t) => {
  const { publicKey, privateKey } = await generateKeyPair('RS256', { extractable: true })
  const stranger = await generateKeyPair('RS256', { extractable: true })
  const jwk = await exportJWK(publicKey)
  let elsewhere = 0
  const issuer = await startHttp((request, response) => {
    if (request.url !== '/jwks') elsewhere += 1
    const keys = request.url === '/jwks' ? [{ ...jwk, kid: 'k1', use: 'sig' }] : [strangers]
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ keys }))
  })
  t.teardown(issuer.close)
  const strangers = { ...(await exportJWK(stranger.publicKey)), kid: 'k1' }
  const folder = await mkdtemp(join(tmpdir(), 'tributary-tokens-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'tributary.json')
  const config = {
    listen: { port: 0, trusted_proxies: ['127.0.0.0/8'] },
    egress: { allow_networks: ['127.0.0.0/8'] },
    callers: {
      keys: [{ id: 'acme', role: 'operator' }],
      jwt: { issuer: ISSUER, audience: AUDIENCE, jwks_url: `${issuer.origin}/jwks` },
    },
    storage: { url: `file:${join(folder, 'data')}` },
    sandbox: false,
  }
  await writeFile(file, JSON.stringify(config))
  const server = startCommand(['serve', '--config', file], { NODE_OPTIONS: '--max-old-space-size=1024' })
  t.teardown(async () => {
    server.process.kill('SIGTERM')
    await server.finished
  })
  const [url] = await server.printed(/http:\/\/127\.0\.0\.1:\d+/)

  const claims = { sub: 'acme', iss: ISSUER, aud: AUDIENCE, exp: inAnHour() }
  const signed = (more: object, header: object = {}, key = privateKey) =>
    new SignJWT({ ...claims, ...more })
      .setProtectedHeader({ alg: 'RS256', kid: 'k1', ...header } as JWTHeaderParameters)
      .sign(key)
  const shared = (secret: string | Buffer, header: object = {}) => {
    const content = `${part({ alg: 'HS256', kid: 'k1', ...header })}.${part(claims)}`
    return `${content}.${createHmac('sha256', secret).update(content).digest('base64url')}`
  }
  const good = await signed({})
  const [head, body, signature] = good.split('.') as [string, string, string]
  const pem = await exportSPKI(publicKey)
  const attacks: Record<string, string> = {
    'alg none': `${part({ alg: 'none' })}.${part(claims)}.`,
    'alg none, with a signature': `${part({ alg: 'none', kid: 'k1' })}.${part(claims)}.${signature}`,
    'alg None': `${part({ alg: 'None' })}.${part(claims)}.AA`,
    'no alg': `${part({ kid: 'k1' })}.${part(claims)}.${signature}`,
    'the public key as a shared secret': shared(pem),
    'its bytes as one': shared(Buffer.from(jwk.n as string, 'base64url')),
    'its JSON as one': shared(JSON.stringify(jwk)),
    'an empty secret, and a key id that leads to nothing': shared('', { kid: '../../../../dev/null' }),
    'a key id as a query': await signed({}, { kid: "k1' UNION SELECT 'x" }, stranger.privateKey),
    'a key id that is an object': `${part({ alg: 'RS256', kid: { $ne: '' } })}.${part(claims)}.${signature}`,
    'a key id of a prototype': await signed({}, { kid: '__proto__' }, stranger.privateKey),
    'a key of its own in the header': await signed({}, { jwk: strangers }, stranger.privateKey),
    'a key set of its own': await signed({}, { jku: `${issuer.origin}/theirs` }, stranger.privateKey),
    'a certificate of its own': await signed({}, { x5u: `${issuer.origin}/theirs` }, stranger.privateKey),
    'a header nobody understands': `${part({ alg: 'RS256', kid: 'k1', crit: ['exp2'], exp2: 1 })}.${body}.${signature}`,
    'another payload': `${head}.${part({ ...claims, sub: 'root' })}.${signature}`,
    'another algorithm of the same key': `${part({ alg: 'RS512', kid: 'k1' })}.${body}.${signature}`,
    'no audience': await signed({ aud: undefined }),
    'another audience': await signed({ aud: 'somebody else' }),
    'an audience that begins like ours': await signed({ aud: `${AUDIENCE}.evil.example` }),
    'no issuer': await signed({ iss: undefined }),
    'another issuer': await signed({ iss: `${ISSUER}.evil.example` }),
    'issuers in a list': await signed({ iss: [ISSUER] }),
    'a time that is over': await signed({ exp: 1 }),
    'no end': await signed({ exp: undefined }),
    'an end that is a text': await signed({ exp: String(inAnHour()) }),
    'a beginning in the future': await signed({ nbf: inAnHour() }),
    'no subject': await signed({ sub: undefined }),
    'a token of eight thousand characters': await signed({ filler: 'x'.repeat(5_900) }),
    'a token longer than a header may be': `${head}.${'A'.repeat(60_000)}.${signature}`,
    'two tokens': `${good},${good}`,
    'five parts': `${good}.${body}.${signature}`,
  }
  let from = 0
  const ask = async (token: string) => {
    from += 1 // each from another address: who sends many wrong ones from one is refused unseen
    const reply = await fetch(`${url}/explain?ref=anything`, {
      headers: { authorization: `Bearer ${token}`, 'x-forwarded-for': `203.0.113.${from}` },
    })
    return { status: reply.status, text: await reply.text() }
  }
  t.equal((await ask(good)).status, 200, 'a genuine token is believed')
  const garbage = await ask('a.b.c')
  t.equal(garbage.status, 401)
  for (const [name, token] of Object.entries(attacks)) {
    const answer = await ask(token)
    if (token.length > 16_000) t.equal(answer.status, 431, name)
    else t.same(answer, garbage, name)
  }
  t.equal((await ask(await signed({ sub: 'nobody' }))).status, 403, 'known to the issuer, not to us')
  t.equal(elsewhere, 0, 'no url in a token was asked')
  t.equal((await fetch(`${url}/healthz`)).status, 200)
})
