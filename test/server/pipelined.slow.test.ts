/** Requests that a caller sends on one connection without waiting for answers (RFC 9112, section 9.3.2). */
import { connect, type Socket } from 'node:net'
import { type Test, test } from 'tap'
import { Type } from '../../src/adcp/schema.js'
import { requestEnvelope } from '../../src/adcp/task-schemas.js'
import type { Task } from '../../src/tasks/task.js'
import { received } from '../support/received.js'
import { BUYER_TOKEN, startServer } from '../support/server-fixture.js'
import { until } from '../support/until.js'

const Request = Type.Object({ ...requestEnvelope })
const COUNT = 100
const LARGE = 'x'.repeat(1024 * 1024) // a system keeps some of these for a connection

const callOf = (name: string, type = 'application/json') => {
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: name,
    method: 'tools/call',
    params: { name, arguments: {} },
  })
  return `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${BUYER_TOKEN}\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}
/** The same request on both ways to the transport. */
const bothWays = (name: string) => callOf(name) + callOf(name, 'application/json; Charset=UTF-8')

function task(name: string, handle: Task<typeof Request>['handle']): Task<typeof Request> {
  return { name, title: name, description: name, request: Request, mutating: false, handle }
}

async function serving(t: Test, tasks: Task<typeof Request>[]) {
  const { app, url, post } = await startServer(t, { tasks })
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  t.teardown(() => socket.destroy())
  /** Others are answered many times meanwhile. */
  const meanwhile = async () => {
    for (let n = 0; n < 50; n += 1) await post('/mcp', { jsonrpc: '2.0', id: n, method: 'ping' })
  }
  return { app, socket, meanwhile }
}

test('nothing is answered ahead for a caller who does not read', async (t) => {
  let handled = 0
  const large = task('large', () => {
    handled += 1
    return { kind: 'answer', message: 'Large.', fields: { text: LARGE } }
  })
  const { socket, meanwhile } = await serving(t, [large])
  socket.write(bothWays('large').repeat(COUNT / 2))
  await until(
    () => handled,
    (n) => n > 0,
  )
  await meanwhile()
  t.ok(handled < COUNT / 2, `${handled} of ${COUNT} are made`)
  socket.resume()
  await until(
    () => handled,
    (n) => n === COUNT,
  )
})

test('a request has its effect after that of the one before it', async (t) => {
  const log: string[] = []
  let release = () => {}
  const slow = task('slow', async () => {
    log.push('slow begins')
    await new Promise<void>((resolve) => {
      release = resolve
    })
    log.push('slow ends')
    return { kind: 'answer', message: 'Slow.', fields: {} }
  })
  const quick = task('quick', () => {
    log.push('quick')
    return { kind: 'answer', message: 'Quick.', fields: {} }
  })
  const { socket, meanwhile, app } = await serving(t, [slow, quick])
  const text = received(socket)
  socket.write(callOf('slow') + bothWays('quick'))
  await until(
    () => log.length,
    (n) => n > 0,
  )
  await meanwhile()
  t.same(log, ['slow begins'])
  release()
  await until(
    () => log.length,
    (n) => n === 4,
  )
  await app.close()
  t.same(log, ['slow begins', 'slow ends', 'quick', 'quick'])
  t.same((await text).match(/"id":"\w+"/g), ['"id":"slow"', '"id":"quick"', '"id":"quick"'])
})

test('who goes on sending behind an answer that takes long is cut off', async (t) => {
  const long = 'x'.repeat(60_000)
  for (const [what, flood] of Object.entries({
    'many requests': 'GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(1_000),
    'long ones': callOf(long).repeat(10),
    'long ones on the other way': callOf(long, 'application/json; Charset=UTF-8').repeat(10),
  })) {
    const { socket, meanwhile } = await serving(t, [task('never', () => new Promise(() => {}))])
    const closed = new Promise((resolve) => socket.once('close', resolve))
    socket.on('error', () => {})
    socket.write(callOf('never'))
    await meanwhile()
    for (let n = 0; n < 20 && !socket.destroyed; n += 1)
      await new Promise<void>((resolve) => void socket.write(flood, () => resolve()))
    await closed
    t.pass(what)
  }
})

/** A task that each call of waits in, until it is released. */
function gated() {
  const inside: (() => void)[] = []
  const gate = task('gate', async () => {
    await new Promise<void>((resolve) => void inside.push(resolve))
    return { kind: 'answer', message: 'Gate.', fields: {} }
  })
  return { gate, inside }
}

const LONG = 900_000
const BOUND = 64 * 1024 * 1024 // of all that waits
const longCall = () => {
  const [head, body] = callOf('gate').split('\r\n\r\n') as [string, string]
  return `${head.replace(/(?<=Length: )\d+/, String(body.length + LONG))}\r\n\r\n${body}${' '.repeat(LONG)}`
}

test('what waits on a connection is counted while answers leave', async (t) => {
  const { gate, inside } = gated()
  const { socket, app } = await serving(t, [gate])
  const served: Socket[] = []
  app.server.on('connection', (one) => void served.push(one))
  socket.on('error', () => {}).resume()
  let sent = 0
  const send = (text: string) => {
    sent += text.length
    socket.write(text)
  }
  const isCut = () => served[0]?.destroyed === true
  send(longCall())
  for (let n = 0; n < 6 && !isCut(); n += 1) {
    send(longCall().repeat(3))
    await until(() => isCut() || (served[0]?.bytesRead === sent && inside.length === 1), Boolean)
    inside.pop()?.()
    await until(() => isCut() || inside.length === 1, Boolean)
  }
  t.ok(isCut(), `${sent} bytes were read`)
})

test('what waits on all connections together has a bound', async (t) => {
  const { gate, inside } = gated()
  const { app, url } = await startServer(t, { tasks: [gate] })
  const served: Socket[] = []
  app.server.on('connection', (one) => void served.push(one))
  const sockets = Array.from({ length: 40 }, () => connect(Number(new URL(url).port), '127.0.0.1'))
  for (const socket of sockets) socket.on('error', () => {}).write(longCall().repeat(4))
  const kept = () => served.filter(({ destroyed }) => !destroyed).length
  await until(
    () => served.length === sockets.length && kept(),
    (count) => count !== false && count * 3 * LONG <= BOUND,
    15_000,
  )
  t.ok(kept() > 0 && inside.length > 0, 'what has room waits')
  for (const socket of sockets) socket.destroy()
})
