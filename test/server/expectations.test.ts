/** What a head says of the body behind it: that its sender waits to hear that it is wanted, and how it is coded. */
import { connect } from 'node:net'
import { type Test, test } from 'tap'
import { received } from '../support/received.js'
import { BUYER_TOKEN, startServer } from '../support/server-fixture.js'
import { until } from '../support/until.js'

const BODY = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })
const CHUNKED = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`
const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n'
const LENGTH = `Content-Length: ${BODY.length}`
const EXPECT = 'Expect: 100-continue'
const JSON_TYPE = 'Content-Type: application/json'

const head = (start: string, ...lines: string[]) =>
  [start, 'Host: 127.0.0.1', `Authorization: Bearer ${BUYER_TOKEN}`, ...lines, '\r\n'].join('\r\n')
const ping = (...lines: string[]) => head('POST /mcp HTTP/1.1', JSON_TYPE, LENGTH, ...lines)
const statuses = (text: string) => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status))

async function opened(t: Test) {
  const { url, raw } = await startServer(t)
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  t.teardown(() => socket.destroy())
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk
  })
  return { raw, socket, heard: () => text, all: received(socket) }
}

test('whoever waits to hear that a body is wanted hears it, and is answered; the connection stays', async (t) => {
  const { socket, heard, all } = await opened(t)
  for (const times of [1, 2]) {
    socket.write(ping(EXPECT))
    await until(heard, (text) => text.split(CONTINUE).length > times)
    socket.write(BODY)
    await until(heard, (text) => text.split('"result"').length > times)
  }
  socket.write(head('GET /healthz HTTP/1.1', 'Connection: close'))
  t.same(statuses(await all), [100, 200, 100, 200, 200])
})

test('it is said in the order of the requests', async (t) => {
  const { socket, heard } = await opened(t)
  socket.write(`${head('GET /healthz HTTP/1.1')}${ping()}${BODY}${ping(EXPECT)}`)
  await until(heard, (text) => text.includes(CONTINUE))
  socket.write(BODY)
  await until(heard, (text) => text.split('"result"').length > 2)
  t.same(statuses(heard()), [200, 200, 100, 200])
})

test('a body that nobody will read is not asked for, and the connection ends with the answer', async (t) => {
  const { raw } = await startServer(t)
  const large = 'Content-Length: 99999999'
  for (const [bytes, status] of [
    [head('POST /mcp HTTP/1.1', JSON_TYPE, large, EXPECT), 413],
    [head('POST /mcp HTTP/1.1', 'Content-Type: text/plain', LENGTH, EXPECT), 415],
    [head('POST /nothing HTTP/1.1', JSON_TYPE, LENGTH, EXPECT), 404],
    [head('PUT /mcp HTTP/1.1', JSON_TYPE, LENGTH, EXPECT), 405],
    [ping(EXPECT, EXPECT), 417],
    [ping('Expect: 100-continue, more'), 417],
    [ping(EXPECT, 'Host: another'), 400],
    [head('POST /mcp HTTP/1.1', JSON_TYPE, 'Transfer-Encoding: gzip, chunked', EXPECT), 501],
  ] as const) {
    const text = await raw(bytes)
    t.same(statuses(text), [status], bytes)
    t.match(text, /\r\nconnection: close\r\n/i)
  }
})

test('nothing is said of a body where there is none', async (t) => {
  const { raw } = await startServer(t)
  t.same(statuses(await raw(head('GET /healthz HTTP/1.1', EXPECT))), [200])
})

test('a body in a coding that is not understood is not read as if it were plain', async (t) => {
  const { raw } = await startServer(t)
  const coded = (coding: string, version = '1.1', keep = 'close') =>
    `${head(`POST /mcp HTTP/${version}`, JSON_TYPE, `Transfer-Encoding: ${coding}`, `Connection: ${keep}`)}${CHUNKED}`
  for (const coding of [
    'gzip, chunked',
    'identity, chunked',
    'gzip\r\nTransfer-Encoding: chunked',
    'gzip,',
  ]) {
    const text = await raw(coded(coding))
    t.match(text, /^HTTP\/1.1 501 .*only chunked is understood/s, coding)
  }
  for (const coding of ['chunked', 'Chunked', ', chunked']) {
    t.same(statuses(await raw(coded(coding))), [200], coding)
  }
  const old = await raw(coded('chunked', '1.0', 'keep-alive'))
  t.same(statuses(old), [400])
  t.match(old, /\r\nconnection: close\r\n/i)
})
