/** Requests that a caller sends on one connection without waiting for answers (RFC 9112, section 9.3.2). */
import { connect } from 'node:net'
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
