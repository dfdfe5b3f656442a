import { createServer, type Socket } from 'node:net'
import { test } from 'tap'
import { loopback, openEgress } from '../support/upstream-egress.js'

type Test = { teardown(task: () => unknown): void }

/** Takes connections and does with each what it is told; nothing else is ever said. */
async function listening(t: Test, onConnection: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {}) // the other side hangs up when its time is up
    onConnection(socket)
  })
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `127.0.0.1:${(server.address() as { port: number }).port}`
}

async function until(holds: () => boolean): Promise<void> {
  const end = Date.now() + 60_000
  while (!holds()) {
    if (Date.now() > end) throw new Error('never happened')
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

async function elapsed(task: () => Promise<unknown>): Promise<number> {
  const start = Date.now()
  await task()
  return Date.now() - start
}

test('a TLS handshake that never ends is ended by total time', async (t) => {
  const host = await listening(t, () => {})
  const { get } = openEgress(t, loopback)
  const ms = await elapsed(async () =>
    t.match(await get(`https://${host}/`, { timeoutMs: 100 }), { kind: 'failed', reason: 'timeout' }),
  )
  t.ok(ms < 30_000, `${ms} ms`)
})

test('a name server that never answers is ended by total time', async (t) => {
  const { get } = openEgress(t, loopback, () => new Promise(() => {}))
  const ms = await elapsed(async () =>
    t.match(await get('https://silent.example/', { timeoutMs: 100 }), { kind: 'failed', reason: 'timeout' }),
  )
  t.ok(ms < 30_000, `${ms} ms`)
})

test('a caller that gives up does not wait for a connection', async (t) => {
  const host = await listening(t, () => {})
  const { get } = openEgress(t, loopback)
  const controller = new AbortController()
  const ms = await elapsed(async () => {
    const pending = get(`https://${host}/`, { signal: controller.signal, timeoutMs: 60_000 })
    controller.abort()
    t.match(await pending, { kind: 'failed', reason: 'aborted' })
  })
  t.ok(ms < 30_000, `${ms} ms`)
})

/** A server that takes connections and never says a word, and how many came and went. */
async function startMute(t: Test) {
  const seen = { opened: 0, gone: 0 }
  const host = await listening(t, (socket) => {
    seen.opened += 1
    socket.on('close', () => {
      seen.gone += 1
    })
    socket.resume()
  })
  return { host, seen }
}

test('who gives up while its connection is being made leaves its place', async (t) => {
  const { host, seen } = await startMute(t)
  const { get } = openEgress(t, loopback)
  const leaving = Array.from({ length: 32 }, () => new AbortController())
  const first = leaving.map(({ signal }) => get(`https://${host}/`, { signal }))
  await until(() => seen.opened === 32)
  const next = get(`https://${host}/`, { timeoutMs: 8_000 }) // a handshake itself is given ten seconds
  for (const each of leaving) each.abort()
  for (const outcome of await Promise.all(first)) t.match(outcome, { kind: 'failed', reason: 'aborted' })
  await Promise.race([until(() => seen.opened === 33), next])
  t.equal(seen.opened, 33)
  await until(() => seen.gone >= 32)
})

test('closing the way out hangs up on connections that are still being made', async (t) => {
  const { host, seen } = await startMute(t)
  const { egress, get } = openEgress(t, { ...loopback, hosts: { 'mapped.example': `https://${host}` } })
  const pending = [get(`https://${host}/`), get('https://mapped.example/')]
  await until(() => seen.opened === 2)
  const ms = await elapsed(async () => {
    await egress.close()
    for (const outcome of await Promise.all(pending)) t.match(outcome, { kind: 'failed' })
    await until(() => seen.gone === 2)
  })
  t.ok(ms < 30_000, `${ms} ms`)
})

test('headers that dribble in for ever are ended by total time', async (t) => {
  const host = await listening(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nx-slow: ')
    const timer = setInterval(() => socket.write('x'), 5)
    socket.on('close', () => clearInterval(timer))
  })
  const { get } = openEgress(t, loopback)
  const ms = await elapsed(async () =>
    t.match(await get(`http://${host}/`, { timeoutMs: 100 }), { kind: 'failed', reason: 'timeout' }),
  )
  t.ok(ms < 30_000, `${ms} ms`)
})

test('headers without end are cut by their size', async (t) => {
  const host = await listening(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\n')
    const more = () => {
      while (socket.writable && socket.write(`x-more: ${'x'.repeat(1_000)}\r\n`));
    }
    socket.on('drain', more)
    more()
  })
  const { get } = openEgress(t, loopback)
  t.match(await get(`http://${host}/`), { kind: 'failed', reason: 'too_large' })
})

test('bytes without end that bring nothing are cut by their size', async (t) => {
  const packed = 'content-encoding: gzip\r\ncontent-length: 100000000000\r\n\r\n'
  const member = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3])
  const named = Buffer.from([0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3])
  const empty = Buffer.concat(Array.from({ length: 10_000 }, () => Buffer.from([0, 0, 0, 0xff, 0xff])))
  const cases: [string, string, Uint8Array, Uint8Array][] = [
    [
      'the extension of a chunk',
      'transfer-encoding: chunked\r\n\r\n1;',
      Buffer.from('e'),
      Buffer.alloc(50_000, 'e'),
    ],
    ['empty blocks', packed, member, empty],
    ['the name of what is packed', packed, named, Buffer.alloc(50_000, 'n')],
  ]
  for (const [what, head, first, then] of cases) {
    const host = await listening(t, (socket) => {
      socket.write(`HTTP/1.1 200 OK\r\n${head}`)
      socket.write(first)
      const more = () => {
        while (socket.writable && socket.write(then));
      }
      socket.on('drain', more)
      more()
    })
    const { get } = openEgress(t, loopback)
    t.match(
      await get(`http://${host}/`, { timeoutMs: 20_000 }),
      { kind: 'failed', reason: 'too_large' },
      what,
    )
  }
})
