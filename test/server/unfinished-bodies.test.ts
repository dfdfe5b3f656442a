/** What senders may hold of a server before they have sent their whole request. */
import { connect, type Socket } from 'node:net'
import { type Test, test } from 'tap'
import { collect } from '../support/collect.js'
import { received } from '../support/received.js'
import { startServer } from '../support/server-fixture.js'
import { until } from '../support/until.js'

const MIB = 1024 * 1024
const BOUND = 64 * MIB
const LARGE = 900_000
const STRANGERS = 80
const PING = '{"jsonrpc":"2.0","id":7,"method":"ping"}'
const LANES = { 'the fast lane': 'application/json', Fastify: 'application/json; Charset=UTF-8' }

/** A server behind a proxy, which tells where requests come from. */
async function serving(t: Test) {
  const { app, url } = await startServer(t, { trustedProxies: ['127.0.0.1/32'] })
  const served: Socket[] = []
  app.server.on('connection', (socket) => void served.push(socket))
  const head = (from: string, type: string, length: string) =>
    `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nX-Forwarded-For: ${from}\r\nContent-Type: ${type}\r\n${length}\r\n\r\n`
  function begin(from: string, length: number, some: string, type = LANES['the fast lane']) {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.write(head(from, type, `Content-Length: ${length}`) + some)
    return { socket, answer: received(socket), rest: ' '.repeat(length - some.length - PING.length) + PING }
  }
  const read = () => served.reduce((sum, { bytesRead }) => sum + bytesRead, 0)
  return { begin, read, head, port: Number(new URL(url).port) }
}

test('a body takes memory as it comes, not as it is announced', async (t) => {
  const { begin, read } = await serving(t)
  const count = 500
  const used = () => {
    collect()
    return process.memoryUsage().arrayBuffers
  }
  const before = used()
  const begun = Array.from({ length: count }, () => begin('198.51.100.1', 60_000, '  '))
  const sent = () => begun.reduce((sum, { socket }) => sum + socket.bytesWritten, 0)
  await until(read, (bytes) => bytes > count && bytes === sent())
  const each = (used() - before) / count
  t.ok(each < 16_384, `${Math.round(each)} bytes for each`)
  for (const { socket, rest } of begun.slice(0, 5)) socket.write(rest)
  for (const { answer } of begun.slice(0, 5)) t.match(await answer, /^HTTP\/1.1 200 .*"id":7/s)
})

test('bodies of one address that are not finished have a bound, and others lose nothing', async (t) => {
  const { begin } = await serving(t)
  const others = Object.values(LANES).flatMap((type) => [
    begin('198.51.100.2', 60_000, ' '.repeat(50_000), type),
    begin('198.51.100.3', LARGE, ' '.repeat(LARGE - 100), type),
  ])
  const strangers = Array.from({ length: STRANGERS }, () =>
    begin('198.51.100.1', LARGE, ' '.repeat(LARGE - 100)),
  )
  const refused: string[] = []
  for (const { answer } of strangers) void answer.then((text) => refused.push(text))
  await until(
    () => refused.length,
    (count) => (STRANGERS - count) * MIB <= BOUND,
    15_000,
  )
  t.ok(refused.length < STRANGERS, 'what has room is read')
  t.ok(refused.some((text) => text.startsWith('HTTP/1.1 413') && text.includes('Too many request bodies')))
  for (const { socket, rest } of others) socket.write(rest)
  for (const { answer } of others) t.match(await answer, /^HTTP\/1.1 200 .*"id":7/s)
})

test('the largest body of an address gives way to its small ones, on either way', async (t) => {
  const { begin } = await serving(t)
  const small = Object.values(LANES).map((type) => begin('198.51.100.1', 1_000, ' ', type))
  const large = Array.from({ length: STRANGERS }, () => begin('198.51.100.1', LARGE, ' '.repeat(LARGE - 100)))
  const ended: string[] = []
  for (const { answer } of large) void answer.then((text) => ended.push(text))
  await until(
    () => (STRANGERS - ended.length) * MIB,
    (held) => held <= BOUND,
    15_000,
  )
  for (const { socket, rest } of small) socket.write(rest)
  for (const { answer } of small) t.match(await answer, /^HTTP\/1.1 200 .*"id":7/s)
  for (const { socket } of large) socket.destroy()
  const late = begin('198.51.100.1', LARGE, ' ')
  late.socket.write(late.rest)
  t.match(await late.answer, /^HTTP\/1.1 200/, 'what has gone is not counted')
})

test('a body of too many tiny chunks is refused', async (t) => {
  const { head, port } = await serving(t)
  const send = (chunks: string[]) => {
    const socket = connect(port, '127.0.0.1')
    const text = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('')
    socket.write(`${head('198.51.100.1', LANES.Fastify, 'Transfer-Encoding: chunked')}${text}0\r\n\r\n`)
    return received(socket)
  }
  const blanks = (count: number, size: number) => Array<string>(count).fill(' '.repeat(size))
  t.match(await send([...blanks(9_000, 1), PING]), /^HTTP\/1.1 200/)
  t.match(await send([...blanks(11_000, 70), PING]), /^HTTP\/1.1 200/)
  t.match(await send([...blanks(11_000, 1), PING]), /^HTTP\/1.1 413 .*chunks/s)
})
