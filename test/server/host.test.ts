import { test } from 'tap'
import { BUYER_TOKEN, startServer } from '../support/server-fixture.js'

const BODY = '{"jsonrpc":"2.0","id":1,"method":"ping"}'

const ROUTES = [
  'GET /',
  'GET /healthz',
  'GET /readyz',
  'GET /metrics',
  'GET /.well-known/agent-card.json',
  'GET /mcp',
  'POST /mcp',
  'POST /mcp?fast=no',
  'POST /a2a',
  'OPTIONS /mcp',
  'GET /nothing/is/here',
]

const headOf = (route: string, lines: readonly string[]) =>
  [
    `${route} HTTP/1.1`,
    ...lines,
    'Connection: close',
    ...(route.startsWith('POST') ? ['Content-Type: application/json', `Content-Length: ${BODY.length}`] : []),
  ].join('\r\n')

/** The status of a request with these lines in its head. */
async function asking(t: Parameters<typeof startServer>[0]) {
  const { raw, lines } = await startServer(t)
  const status = async (route: string, ...more: string[]) => {
    const answer = await raw(`${headOf(route, more)}\r\n\r\n${route.startsWith('POST') ? BODY : ''}`)
    return Number(answer.split(' ')[1])
  }
  return { status, raw, lines }
}

test('a request whose Host is not one authority is refused on every route (RFC 9112, section 3.2)', async (t) => {
  const { status } = await asking(t)
  for (const route of ROUTES) {
    const usual = await status(route, 'Host: localhost')
    t.not(usual, 400, `${route} with one`)
    for (const host of [
      'localhost:8080',
      '127.0.0.1',
      '[::1]:80',
      'a-b.example.',
      'xn--bcher-kva.example',
      'local%68ost',
    ])
      t.not(await status(route, `Host: ${host}`), 400, `${route} with ${host}`)
    for (const lines of [
      ['Host: localhost', 'Host: localhost'],
      ['Host: localhost', 'host: evil.example'],
      ['Host:', 'Host: localhost'],
      ['Host: localhost', 'Host:'],
    ])
      t.equal(await status(route, ...lines), 400, `${route} with ${lines.join(' and ')}`)
    for (const host of [
      'localhost, localhost',
      'local host',
      'somebody@localhost',
      'localhost/path',
      'localhost?',
      'localhost:80:80',
      'localhost:http',
      '[::1',
      '[localhost]',
      '::1',
      'local%zzhost',
      'b\u00fccher.example',
    ])
      t.equal(await status(route, `Host: ${host}`), 400, `${route} with ${host}`)
    t.equal(await status(route), 400, `${route} without one`)
  }
})

test('a refusal for its Host is told in the log, and says why', async (t) => {
  const { raw, lines } = await asking(t)
  const answer = await raw(`${headOf('GET /healthz', ['Host: a', 'Host: b'])}\r\n\r\n`)
  t.match(JSON.parse(answer.split('\r\n\r\n')[1] ?? ''), { error: { message: /Host/ } })
  t.match(
    lines.map((line) => JSON.parse(line)),
    [{ path: '/healthz', status: 400, reason: 'invalid_request' }],
  )
})

test('what may come once and comes twice is not read from its first line', async (t) => {
  const { status } = await asking(t)
  const key = `Authorization: Bearer ${BUYER_TOKEN}`
  t.equal(await status('POST /mcp', 'Host: localhost', key), 200)
  t.equal(await status('POST /mcp', 'Host: localhost', key, 'Authorization: Bearer another'), 401)
  t.equal(await status('POST /mcp', 'Host: localhost', 'Content-Type: application/json'), 415)
})

test('what comes twice is seen behind however many other lines', async (t) => {
  const { status } = await asking(t)
  const many = Array.from({ length: 2_500 }, () => 'a:')
  const key = `Authorization: Bearer ${BUYER_TOKEN}`
  for (const route of ['GET /healthz', 'POST /mcp']) {
    t.equal(await status(route, 'Host: localhost', ...many, key), 200, `${route} with all lines`)
    t.equal(await status(route, 'Host: localhost', ...many, 'Host: evil.example'), 400, `${route} with two`)
  }
  t.equal(await status('POST /mcp', 'Host: localhost', key, ...many, 'Authorization: Bearer another'), 401)
})

test('a request with more than one reading of where it ends is refused', async (t) => {
  const { raw } = await asking(t)
  const post = 'POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
  const chunked = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`
  for (const [what, bytes] of Object.entries({
    'both lengths': `${post}Transfer-Encoding: chunked\r\nContent-Length: ${BODY.length}\r\n\r\n${chunked}`,
    'both lengths, the other way round': `${post}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n${chunked}`,
    'two lengths': `${post}Content-Length: ${BODY.length}\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`,
    'a bare LF': `${post}Content-Length: ${BODY.length}\n\r\n${BODY}`,
    'bare LFs': `${post}Content-Length: ${BODY.length}\r\n\r\n${BODY}`.replaceAll('\r\n', '\n'),
    'a bare LF in a chunk': `${post}Transfer-Encoding: chunked\r\n\r\n${chunked.replaceAll('\r\n', '\n')}`,
    'a bare CR': `${post}X: a\rY: b\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`,
    'a folded line': `${post}X: a\r\n b\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`,
    'a space before a colon': `${post}Content-Length : ${BODY.length}\r\n\r\n${BODY}`,
  }))
    t.match(await raw(bytes), /^HTTP\/1\.1 400 /, what)
})

test('a request to a whole url is for the host of the url, whatever its Host says (RFC 9112, section 3.2.2)', async (t) => {
  const { raw, lines } = await startServer(t)
  const ask = (route: string, host: string) =>
    raw(`${headOf(route, [host])}\r\n\r\n${route.startsWith('POST') ? BODY : ''}`)
  const status = async (route: string, host = 'Host: localhost') =>
    Number((await ask(route, host)).split(' ')[1])
  t.equal(await status('POST http://localhost/mcp'), 200)
  t.equal(await status('POST HTTP://localhost:80/mcp?a=b', 'Host: evil.example'), 200)
  t.equal(await status('POST http://evil.example/mcp'), 403, 'a rebound name')
  t.equal(await status('GET https://evil.example/metrics'), 403)
  t.equal(await status('GET http://localhost'), 404, 'the path is /')
  t.equal(await status('GET http://localhost?a=b'), 404)
  t.equal(await status('GET http://localhost/healthz'), 200)
  t.match(await ask('GET http://localhost/mcp', 'Host: localhost'), /^HTTP\/1\.1 405 .*\r\nallow: POST\r\n/s)
  t.equal(await status('GET http://somebody@localhost/healthz'), 400, 'a url of HTTP names nobody')
  t.equal(
    await status('GET http://localhost/healthz', 'Host: a b'),
    400,
    'the Host has to be one all the same',
  )
  const paths = lines.map((line) => JSON.parse(line).path)
  t.notOk(
    paths.some((path) => path?.includes('localhost')),
    'the log has paths alone',
  )
})

test('a request for the server as a whole is OPTIONS (RFC 9112, section 3.2.4), and says what it takes', async (t) => {
  const { status, raw } = await asking(t)
  const answer = await raw(`${headOf('OPTIONS *', ['Host: localhost'])}\r\n\r\n`)
  t.match(answer, /^HTTP\/1\.1 200 /)
  t.match(answer, /\r\nallow: GET, HEAD, POST\r\n/)
  t.match(answer, /\r\ncontent-length: 0\r\n/)
  for (const method of ['GET', 'HEAD', 'POST', 'DELETE']) {
    t.equal(await status(`${method} *`, 'Host: localhost'), 400, method)
  }
})

test('a version of HTTP that is not spoken here is refused as such (RFC 9110, section 15.6.6)', async (t) => {
  const { raw } = await asking(t)
  for (const route of ROUTES) {
    const head = headOf(route, ['Host: localhost']).replace('HTTP/1.1', 'HTTP/2.0')
    t.match(await raw(`${head}\r\n\r\n${route.startsWith('POST') ? BODY : ''}`), /^HTTP\/1\.1 505 /, route)
  }
})
