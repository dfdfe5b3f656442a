/** What is no request, or no whole one, on connections where others were asked before. */
import { connect, type Socket } from 'node:net'
import { type Test, test } from 'tap'
import { Type } from '../../src/adcp/schema.js'
import { requestEnvelope } from '../../src/adcp/task-schemas.js'
import type { Task } from '../../src/tasks/task.js'
import { received } from '../support/received.js'
import { BUYER_TOKEN, startServer } from '../support/server-fixture.js'
import { until } from '../support/until.js'

const HEAD = `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${BUYER_TOKEN}\r\nContent-Type: application/json\r\n`
const callOf = (name: string) => {
  const params = { name, arguments: {} }
  const body = JSON.stringify({ jsonrpc: '2.0', id: name, method: 'tools/call', params })
  return `${HEAD}Content-Length: ${body.length}\r\n\r\n${body}`
}

/** The heads of the answers, and the whole of the last one's body. */
function answersOf(text: string) {
  const answers = text.split(/(?=HTTP\/1\.1 \d)/)
  const [head = '', body = ''] = (answers.at(-1) ?? '').split('\r\n\r\n')
  return { statuses: answers.map((answer) => Number(answer.slice(9, 12))), head, body }
}

async function serving(t: Test) {
  const Request = Type.Object({ ...requestEnvelope })
  let begun = 0
  let release = () => {}
  const gate = () => {
    begun += 1
    return new Promise<void>((resolve) => {
      release = resolve
    })
  }
  const slow: Task<typeof Request> = {
    ...{ name: 'slow', title: 'slow', description: 'slow', request: Request, mutating: false },
    async handle() {
      await gate()
      return { kind: 'answer', message: 'Slow.', fields: {} }
    },
  }
  const { url, raw, app } = await startServer(t, {
    tasks: [slow],
    routes(routes) {
      routes.post('/later', { onRequest: gate }, async () => 'read')
    },
  })
  const sockets: Socket[] = []
  app.server.on('connection', (socket) => void sockets.push(socket))
  const faults = { seen: 0 }
  app.server.on('clientError', () => {
    faults.seen += 1
  })
  return {
    /** Goes on sending when the server has ended its half. */
    open: () => connect({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true }),
    ...{ raw, faults, sockets },
    begins: () => until(() => begun, Boolean),
    release: () => release(),
  }
}

test('what is no request is answered after the request before it', async (t) => {
  const { open, begins, release, faults } = await serving(t)
  const socket = open()
  const text = received(socket)
  socket.write(`${callOf('slow')}GARBAGE\r\n\r\n`)
  socket.once('end', () => socket.end())
  await begins()
  await until(() => faults.seen, Boolean)
  release()
  const { statuses, head, body } = answersOf(await text)
  t.same(statuses, [200, 400])
  t.match(head, /\r\nconnection: close/i)
  t.match(JSON.parse(body), {
    jsonrpc: '2.0',
    id: null,
    error: { code: -32600, message: /not a request of HTTP/ },
  })
})

test('what is asked of a proxy is refused, after the answer to the request before it', async (t) => {
  const { open, begins, release } = await serving(t)
  const socket = open()
  const text = received(socket)
  socket.write(`${callOf('slow')}CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n`)
  socket.once('end', () => socket.end())
  await begins()
  release()
  const { statuses, head, body } = answersOf(await text)
  t.same(statuses, [200, 501])
  t.match(head, /\r\nconnection: close/i)
  t.match(JSON.parse(body).error.message, /no proxy/)
})

test('a request that would change the protocol is answered as the last of its connection', async (t) => {
  const { open } = await serving(t)
  const change = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n'
  const first = [
    `GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n${change}\r\n`,
    callOf('get_adcp_capabilities').replace('\r\n', `\r\n${change}`),
  ]
  for (const request of first) {
    const socket = open()
    const text = received(socket)
    socket.write(request + callOf('get_adcp_capabilities')) // Node drops what it has read behind the first
    socket.once('end', () => socket.end())
    const { statuses, head } = answersOf(await text)
    t.same(statuses, [200])
    t.match(head, /\r\nconnection: close/i)
  }
})

test('nothing behind such a request is taken for another one', async (t) => {
  const { open, begins, release, sockets } = await serving(t)
  const socket = open()
  const text = received(socket)
  const change = 'Connection: Upgrade\r\nUpgrade: h2c\r\n'
  const inner = callOf('slow')
  const head = `${HEAD}Content-Length: ${inner.length}\r\n\r\n`
  const sent = callOf('slow').replace('\r\n', `\r\n${change}`) + head
  socket.write(sent)
  socket.once('end', () => socket.end())
  await begins()
  socket.write(inner) // the body of the request whose head was dropped
  await until(
    () => sockets[0]?.bytesRead,
    (bytes) => bytes === sent.length + inner.length,
  )
  release()
  const { statuses, head: last } = answersOf(await text)
  t.same(statuses, [200])
  t.match(last, /\r\nconnection: close/i)
  t.equal(await begins(), 1)
})

test('a body that breaks before anybody reads it is refused, once', async (t) => {
  const { open, begins, release, faults } = await serving(t)
  const socket = open()
  const text = received(socket)
  socket.write(`${HEAD.replace('/mcp', '/later')}Transfer-Encoding: chunked\r\n\r\nzz\r\n`)
  socket.once('end', () => socket.end())
  await begins()
  await until(() => faults.seen, Boolean)
  release()
  const { statuses, body } = answersOf(await text)
  t.same(statuses, [400])
  t.match(JSON.parse(body).error.message, /chunk size/)
})

test('each fault of HTTP is told in our words', async (t) => {
  const { raw } = await serving(t)
  const faults: [text: string, status: number, message: RegExp][] = [
    ['GET / HTTP/9.9\r\n\r\n', 400, /Invalid HTTP version/],
    [`GET /healthz HTTP/1.1\r\nHost: a\r\nA: ${'a'.repeat(20_000)}\r\n\r\n`, 431, /too large/],
    [`${HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n`, 400, /chunk size/],
    ['GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n', 400, /one Host/],
    [`${HEAD}Connection: close\r\nExpect: more\r\nContent-Length: 2\r\n\r\n{}`, 417, /100-continue/],
  ]
  for (const [bytes, status, message] of faults) {
    const { statuses, head, body } = answersOf(await raw(bytes))
    t.same(statuses, [status])
    t.match(head, /\r\nconnection: close/i)
    t.match(JSON.parse(body).error.message, message)
  }
})

test('a request that ends too early has one answer', async (t) => {
  const { open } = await serving(t)
  for (const [type, status] of [
    ['application/json', 400],
    ['application/json; Charset=UTF-8', 400],
    ['text/plain', 415],
  ] as const) {
    const socket = open()
    const text = received(socket)
    socket.end(`${HEAD.replace('application/json', type)}Content-Length: 10\r\n\r\n{`)
    const { statuses, body } = answersOf(await text)
    t.same(statuses, [status], type)
    t.ok(JSON.parse(body).error.message)
  }
})

test('who sends more than is read is answered all the same', async (t) => {
  const { open } = await serving(t)
  const heads = [
    `${HEAD}Content-Length: 8388608\r\n\r\n`,
    `${HEAD}Transfer-Encoding: chunked\r\n\r\n800000\r\n`,
    `${HEAD}Connection: close\r\nContent-Length: 2\r\n\r\n{}`,
  ]
  for (const head of heads) {
    const socket = open()
    let failure: Error | undefined
    socket.on('error', (error) => {
      failure = error
    })
    const answer = received(socket)
    socket.write(head)
    for (let n = 0; n < 128 && !failure; n += 1) {
      await new Promise((resolve) => socket.write('x'.repeat(65_536), resolve))
    }
    socket.end()
    const text = await answer
    t.equal(failure, undefined)
    t.match(text, /^HTTP\/1\.1 4/)
    t.same(answersOf(text).statuses.length, 1)
  }
})
