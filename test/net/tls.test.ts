import tls from 'node:tls'
import tap, { test } from 'tap'
import { type Certificate, startHttps, startTrusting } from '../support/tls.js'
import { startHttp } from '../support/upstream-agent.js'
import { loopback, openEgress } from '../support/upstream-egress.js'

const HERE = ['127.0.0.1']
const METADATA = '169.254.169.254'

const sendTrusting = startTrusting(tap)

test('the address is pinned, and the certificate, SNI and Host follow the name', async (t) => {
  const hosts: unknown[] = []
  const server = await startHttps(t, 'good', (request, response) => {
    hosts.push(request.headers.host)
    response.setHeader('connection', 'close').end('ok')
  })
  const url = `https://signals.example:${server.port}/`
  const { outcomes, asked } = await sendTrusting({
    policy: loopback,
    names: { 'signals.example': ['127.0.0.1', METADATA] },
    requests: [{ url }, { url }],
  })
  t.match(outcomes[0], { kind: 'reply', status: 200, text: 'ok' })
  t.match(outcomes[1], { kind: 'failed', reason: 'refused' }, 'the next connection is checked anew')
  t.same(asked, { 'signals.example': 2 }, 'one look a connection')
  t.same(server.names, ['signals.example'])
  t.same(hosts, [`signals.example:${server.port}`])
})

test('a certificate that does not hold makes its server unreachable, and the message says why', async (t) => {
  const cases: [Certificate, string, RegExp][] = [
    ['untrusted', 'signals.example', /signed by an authority that is not trusted here/],
    ['expired', 'signals.example', /has expired/],
    ['not-yet-valid', 'signals.example', /is not valid yet/],
    ['other-name', 'signals.example', /is for another name/],
    ['good', 'stranger.example', /is for another name/],
    ['other-name', '127.0.0.1', /is for another name/],
  ]
  const asked: string[] = []
  const servers = await Promise.all(
    cases.map(([certificate, host]) =>
      startHttps(t, certificate, (_, response) => {
        asked.push(`${certificate} for ${host}`)
        response.end('secret')
      }),
    ),
  )
  const { outcomes } = await sendTrusting({
    policy: loopback,
    names: Object.fromEntries(cases.map(([, host]) => [host, HERE])),
    requests: cases.map(([, host], at) => ({ url: `https://${host}:${servers[at]?.port}/` })),
  })
  for (const [at, [certificate, host, message]] of cases.entries()) {
    t.match(outcomes[at], { kind: 'failed', reason: 'unreachable', message }, `${certificate} for ${host}`)
  }
  t.same(asked, [], 'nothing was sent')
})

test('a private authority is trusted only by a process that was told of it', async (t) => {
  const server = await startHttps(t, 'good', (_, response) => response.end('ok'))
  const url = `https://127.0.0.1:${server.port}/`
  const { get } = openEgress(t, loopback)
  t.match(await get(url), { kind: 'failed', reason: 'unreachable', message: /not trusted here/ })
  const { outcomes } = await sendTrusting({ policy: loopback, requests: [{ url }] })
  t.match(outcomes, [{ kind: 'reply', text: 'ok' }])
})

test('no environment variable turns certificates off, for mapped domains neither', async (t) => {
  const server = await startHttps(t, 'untrusted', (_, response) => response.end('secret'))
  const sendAnyway = startTrusting(t, { NODE_TLS_REJECT_UNAUTHORIZED: '0' })
  const { outcomes } = await sendAnyway({
    policy: { ...loopback, hosts: { 'provider.example': server.origin } },
    requests: [{ url: `https://127.0.0.1:${server.port}/` }, { url: 'https://provider.example/' }],
  })
  const failure = { kind: 'failed', reason: 'unreachable', message: /not trusted here/ }
  t.match(outcomes, [failure, failure])
})

test('a mapped domain over https shows the certificate of its own name', async (t) => {
  const hosts: unknown[] = []
  const server = await startHttps(t, 'good', (request, response) => {
    hosts.push(request.headers.host)
    response.end('ok')
  })
  const { outcomes } = await sendTrusting({
    policy: { hosts: { 'provider.example': server.origin, 'stranger.example': server.origin } },
    requests: [{ url: 'https://provider.example/' }, { url: 'https://stranger.example/' }],
  })
  t.match(outcomes, [
    { kind: 'reply', text: 'ok' },
    { kind: 'failed', reason: 'unreachable', message: /is for another name/ },
  ])
  t.equal(server.names[0], 'provider.example')
  t.same(hosts, ['provider.example'])
})

test('a redirect never leaves https, and its next host shows a certificate of its own', async (t) => {
  let plain = 0
  const down = await startHttp((_, response) => {
    plain += 1
    response.end('plain')
  })
  t.teardown(down.close)
  const bad = await startHttps(t, 'other-name', (_, response) => response.end('caught'))
  const places: Record<string, string> = {
    '/down': `http://signals.example:${new URL(down.origin).port}/`,
    '/bad': `https://www.signals.example:${bad.port}/`,
  }
  const server = await startHttps(t, 'good', (request, response) => {
    const location = places[request.url ?? '']
    response.writeHead(location ? 307 : 200, location ? { location } : {}).end('ok')
  })
  places['/good'] = `https://www.signals.example:${server.port}/there`
  const ask = (path: string, method: 'GET' | 'POST') => ({
    url: `https://signals.example:${server.port}${path}`,
    redirects: 'same-site' as const,
    method,
  })
  const { outcomes } = await sendTrusting({
    policy: { ...loopback, allowHttp: true },
    names: { 'signals.example': HERE, 'www.signals.example': HERE },
    requests: [ask('/down', 'GET'), ask('/down', 'POST'), ask('/bad', 'GET'), ask('/good', 'POST')],
  })
  t.match(outcomes, [
    { kind: 'failed', reason: 'bad_redirect', message: /leaves https/ },
    { kind: 'failed', reason: 'bad_redirect', message: /leaves https/ },
    { kind: 'failed', reason: 'unreachable', message: /is for another name/ },
    { kind: 'reply', status: 200, text: 'ok' },
  ])
  t.equal(plain, 0)
  t.ok(server.names.includes('www.signals.example'))
})

test('TLS connections are kept for the requests to come', async (t) => {
  const server = await startHttps(t, 'good', (_, response) => response.end('ok'))
  const requests = Array.from({ length: 10 }, () => ({ url: `https://signals.example:${server.port}/` }))
  const { outcomes } = await sendTrusting({
    policy: loopback,
    names: { 'signals.example': HERE },
    requests,
  })
  t.equal(outcomes.filter(({ kind }) => kind === 'reply').length, 10)
  t.ok(server.names.length <= 2, `${server.names.length} handshakes`)
})

test('what speaks no TLS is unreachable, in words', async (t) => {
  const plain = await startHttp((_, response) => void response.end('plain'))
  t.teardown(plain.close)
  const { get } = openEgress(t, loopback)
  t.match(await get(plain.url.replace('http:', 'https:')), {
    kind: 'failed',
    reason: 'unreachable',
    message: /does not speak TLS/,
  })
})

test('no connection makes for itself whom it trusts, which takes a millisecond', async (t) => {
  const server = await startHttps(t, 'good', (_, response) => response.end('ok'))
  const { get } = openEgress(t, loopback)
  const make = tls.createSecureContext
  let made = 0
  tls.createSecureContext = (options) => {
    made += 1
    return make(options)
  }
  t.teardown(() => {
    tls.createSecureContext = make
  })
  for (let at = 0; at < 3; at += 1) t.match(await get(server.origin), { reason: 'unreachable' })
  t.equal(made, 0)
})
