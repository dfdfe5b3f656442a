import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { type Test, test } from 'tap'
import type { Outbound } from '../../src/net/send.js'
import { loopback, openEgress } from '../support/upstream-egress.js'
import { until } from '../support/upstream-world.js'

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
const HUNG_UP = { kind: 'failed', reason: 'unreachable' }

/** Answers a request, `nth` on connection `on`, each counted from 1. */
type Answering = (socket: Socket, on: number, nth: number) => void

/** A server that does with each request what it is told, and tells on which connections they came. */
async function serving(t: Test, answering: Answering) {
  const requests: number[] = []
  let connections = 0
  const server = createServer((socket) => {
    connections += 1
    const on = connections
    let nth = 0
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      if (!bytes.includes(' HTTP/1.1\r\n')) return // a body
      nth += 1
      requests.push(on)
      answering(socket, on, nth)
    })
    t.teardown(() => socket.destroy())
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close())
  const { get } = openEgress(t, loopback)
  const url = `http://127.0.0.1:${(server.address() as { port: number }).port}/`
  const ask = async (more: Partial<Outbound> = {}) => {
    await setImmediate() // a connection is free a turn of the loop after its answer
    await setImmediate()
    return get(url, more)
  }
  return { requests, ask }
}

const closing = (how: (socket: Socket) => void): Answering => {
  return (socket, on, nth) => (on === 1 && nth === 2 ? how(socket) : socket.write(OK))
}

for (const [what, how] of [
  ['is closed', (socket) => socket.end()],
  ['is reset', (socket) => socket.resetAndDestroy()],
] as [string, (socket: Socket) => void][]) {
  test(`a read whose kept connection ${what} under it goes once more, over a new one`, async (t) => {
    const { requests, ask } = await serving(t, closing(how))
    t.match(await ask(), { kind: 'reply' })
    t.match(await ask(), { kind: 'reply', status: 200 })
    t.same(requests, [1, 1, 2])
  })

  test(`a request whose kept connection ${what} under it goes once more only if it is said to be a read`, async (t) => {
    const posted = { method: 'POST', body: '{}' } as const
    const change = await serving(t, closing(how))
    t.match(await change.ask(), { kind: 'reply' })
    t.match(await change.ask(posted), HUNG_UP)
    t.same(change.requests, [1, 1])
    const read = await serving(t, closing(how))
    t.match(await read.ask(), { kind: 'reply' })
    t.match(await read.ask({ ...posted, isRead: true }), { kind: 'reply' })
    t.same(read.requests, [1, 1, 2])
  })
}

test('a read goes no third time', async (t) => {
  const { requests, ask } = await serving(t, (socket, on, nth) => {
    if (on === 1 && nth === 1) socket.write(OK)
    else socket.destroy()
  })
  t.match(await ask(), { kind: 'reply' })
  t.match(await ask(), HUNG_UP)
  t.same(requests, [1, 1, 2])
})

test('a read does not go once more over another connection that was kept', async (t) => {
  const held: Socket[] = []
  const { requests, ask } = await serving(t, (socket, on, nth) => {
    if (nth > 1) socket.destroy()
    else if (on > 4) socket.write(OK)
    else held.push(socket)
  })
  const first = Array.from({ length: 4 }, () => ask())
  await until('four connections are in use', () => held.length === 4)
  for (const socket of held) socket.write(OK)
  for (const outcome of await Promise.all(first)) t.match(outcome, { kind: 'reply' })
  t.match(await ask(), { kind: 'reply' })
  t.same(requests.slice(5), [5])
})

test('a read does not go once more when its answer had begun, or over a connection that never answered', async (t) => {
  for (const begun of ['H', 'HTTP/1.1 200 OK\r\nx-a: ', 'HTTP/1.1 103 Early Hints\r\n\r\n']) {
    const { requests, ask } = await serving(
      t,
      closing((socket) => socket.end(begun)),
    )
    t.match(await ask(), { kind: 'reply' })
    t.match(await ask(), { kind: 'failed' }, begun)
    t.same(requests, [1, 1], begun)
  }
  const { requests, ask } = await serving(t, (socket) => void socket.destroy())
  t.match(await ask(), HUNG_UP)
  t.same(requests, [1])
})

test('a read that goes once more has the time that was left to it', async (t) => {
  const { requests, ask } = await serving(t, (socket, on, nth) => {
    if (on === 1) nth === 1 ? socket.write(OK) : socket.destroy()
  })
  t.match(await ask(), { kind: 'reply' })
  const startedAt = Date.now()
  t.match(await ask({ timeoutMs: 200 }), { kind: 'failed', reason: 'timeout' })
  t.ok(Date.now() - startedAt < 20_000)
  t.same(requests, [1, 1, 2])
})
