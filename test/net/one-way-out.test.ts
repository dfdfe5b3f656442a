import { readdir, readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SignJWT } from 'jose'
import { test } from 'tap'
import { getWellKnown } from '../../src/authz/provider/files.js'
import { createPost } from '../../src/events/letter.js'
import { createWebhook } from '../../src/events/webhook.js'
import { createJwtVerifier } from '../../src/server/door/credentials.js'
import { createA2aAgent } from '../../src/upstreams/agent/a2a.js'
import { createMcpAgent } from '../../src/upstreams/agent/mcp.js'
import { askRegistry } from '../../src/upstreams/roster/registries.js'
import { probe } from '../../src/upstreams/walk/link.js'
import { startHttp } from '../support/upstream-agent.js'
import { openEgress } from '../support/upstream-egress.js'

const src = resolve(dirname(fileURLToPath(import.meta.url)), '../../../src')
const DIALS =
  /(from |require\()'undici|from 'node:(https|http2|tls|dgram)'|(?<!\.|function )\bfetch\(|\b(http|net)\.(request|get|connect)\(/g
/**
 * Who dials past it, and in how many places: `check`, at the address where the operator's own server is to listen, the commands that
 * speak to that server, and a buyer's mirror, which asks the one server that it is told.
 */
const OWN = new Map([
  ['commands/address.ts', 1],
  ['composition/places.ts', 1],
  ['mirror/feed-asker.ts', 1],
])
const none = { type: 'none' } as const

test('no room but net opens a connection, so that all of them go through its guard', async (t) => {
  const files = (await readdir(src, { recursive: true })).filter((name) => name.endsWith('.ts'))
  const dialling: string[] = []
  for (const file of files) {
    const text = (await readFile(join(src, file), 'utf8')).replace(/^import type .*$/gm, '') // types dial nothing
    if ([...text.matchAll(DIALS)].length > (OWN.get(file) ?? 0)) dialling.push(file)
  }
  t.same(dialling.sort(), ['net/connections.ts', 'net/connector.ts'])
})

test('registries, agents, files, key sets and webhooks are all refused at a private address', async (t) => {
  let requests = 0
  const server = await startHttp((_, response) => {
    requests += 1
    response.end('{}')
  })
  t.teardown(server.close)
  const { egress } = openEgress(t, { allowHttp: true })
  const { send } = egress
  const { url, origin } = server
  const budget = { timeoutMs: 60_000 }
  const refused = { kind: 'failed', reason: 'refused' }

  t.match(await askRegistry({ send, url: origin, headers: {}, now: Date.now }), refused)
  t.match(await createMcpAgent({ send, url, auth: none }).call('get_signals', {}, budget), refused)
  t.match(await createA2aAgent({ send, url, auth: none }).call('get_signals', {}, budget), refused)
  t.match(await probe({ send, url, auth: none }, undefined, budget), refused)

  const files = {
    send,
    now: Date.now,
    signal: new AbortController().signal,
    examine: () => Promise.reject(new Error('nothing came')),
  }
  const file = `${origin}/.well-known/adagents.json`
  t.match(await getWellKnown(files, '127.0.0.1', file, undefined), {
    kind: 'failed',
    reason: 'unreachable',
    passing: true,
    message: /may not be reached/,
  })

  const issuer = 'https://issuer.example'
  const token = await new SignJWT({ sub: 'a' })
    .setProtectedHeader({ alg: 'ES256', kid: 'k' })
    .setIssuer(issuer)
    .setAudience('tributary')
    .setExpirationTime('5m')
    .sign(
      (await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify']))
        .privateKey,
    )
  const verifier = createJwtVerifier({
    issuer,
    audience: 'tributary',
    jwksUrl: `${origin}/jwks`,
    send,
    now: Date.now,
  })
  t.match(await verifier.verify(token), { kind: 'unavailable' })

  const deliver = createWebhook({ post: createPost({ send, signer: () => ({}) }), now: Date.now })
  const push = { url: `${origin}/hook` } as Parameters<typeof deliver>[1]
  t.match(await deliver('buyer', push, '{}'), {
    kind: 'rejected',
    reason: 'refused',
  })
  t.equal(requests, 0)
})

test('no failure tells a path or a query, and no credential in a url is sent', async (t) => {
  const authorizations: unknown[] = []
  const server = await startHttp((request, response) => {
    authorizations.push(request.headers.authorization)
    if (request.url?.startsWith('/away')) response.writeHead(302, { location: 'https://b.example/?s3cret' })
    if (request.url?.startsWith('/broken')) response.socket?.end('garbage\r\n\r\n')
    else if (!request.url?.startsWith('/silent')) response.end('x'.repeat(1_000))
  })
  t.teardown(server.close)
  const { port } = new URL(server.origin)
  const reached = openEgress(t, { allowNetworks: ['127.0.0.0/8'] })
  const strict = openEgress(t, {}, async () => {
    throw Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })
  })
  const at = (path: string) => `http://user:s3cret@127.0.0.1:${port}/${path}?token=s3cret`
  const outcomes = await Promise.all([
    reached.get(at('away'), { redirects: 'same-site' }),
    reached.get(at('broken')),
    reached.get(at('silent'), { timeoutMs: 2_000 }),
    reached.get(at('large'), { maxBytes: 10 }),
    reached.get('http://user:s3cret@127.0.0.1:1/s3cret?s3cret'),
    strict.get(at('refused')),
    strict.get('https://s3cret@nowhere.example/s3cret?s3cret'),
    strict.get('ftp://s3cret@nowhere.example/'),
  ])
  for (const outcome of outcomes) t.match(outcome, { kind: 'failed', message: /^(?!.*s3cret)/s })
  t.same(
    outcomes.map((outcome) => outcome.kind === 'failed' && outcome.reason),
    [
      ...['bad_redirect', 'not_http', 'timeout', 'too_large'],
      ...['unreachable', 'refused', 'unresolvable', 'refused'],
    ],
  )
  t.same(authorizations, [undefined, undefined, undefined, undefined])
})
