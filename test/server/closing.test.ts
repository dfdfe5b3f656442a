/** A server that closes answers whoever had connected, whatever the reason and however busy it is. */
import { type AddressInfo, connect, type Socket } from 'node:net'
import { type Test, test } from 'tap'
import { received } from '../support/received.js'
import { type FixtureOptions, startServer } from '../support/server-fixture.js'
import { until } from '../support/until.js'

const CALLERS = 400
const BODY = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'get_signals', arguments: { discovery_mode: 'wholesale' } },
})
const HEAD = `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\nContent-Length: ${BODY.length}\r\n`
const PLAIN = `${HEAD}Content-Type: application/json\r\n\r\n`
const CALL = PLAIN + BODY
const CALL_OF_FASTIFY = `${HEAD}Content-Type: application/json; Charset=UTF-8\r\n\r\n${BODY}`

const LARGE = 'x'.repeat(16 * 1024 * 1024)

const connected = (socket: Socket) => new Promise((resolve) => socket.once('connect', resolve))
const statusOf = (text: string) => text.slice(0, 15)
const count = (texts: readonly string[], pattern: RegExp) => texts.filter((text) => pattern.test(text)).length

async function serving(t: Test, options?: FixtureOptions) {
  const { app } = await startServer(t, options)
  const { port } = app.server.address() as AddressInfo
  return { app, open: () => connect(port, '127.0.0.1'), port }
}

test('400 callers who connected before it are answered, however long each of them takes', async (t) => {
  let at = Date.now()
  const { app, open } = await serving(t, { now: () => at })
  app.server.prependListener('request', () => {
    at += 1_000
  })
  const sockets = Array.from({ length: CALLERS }, open)
  const texts = sockets.map(received)
  sockets.forEach((socket, n) => void socket.write(n % 2 === 0 ? CALL : CALL_OF_FASTIFY))
  await Promise.all(sockets.map(connected))
  await app.close()
  const answers = await Promise.all(texts)
  t.same([...new Set(answers.map(statusOf))], ['HTTP/1.1 200 OK'])
  t.equal(count(answers, /"status":"completed"/), CALLERS)
  t.equal(count(answers, /\r\nconnection: close\r\n/i), CALLERS, 'nobody may send another request there')
})

test('who had connected before it is answered also where accepting takes long', async (t) => {
  let at = Date.now()
  const { app, open } = await serving(t, { now: () => at })
  app.server.on('connection', () => {
    at += 40
  })
  const sockets = Array.from({ length: CALLERS }, open)
  const texts = sockets.map(received)
  for (const socket of sockets) socket.write(CALL)
  await Promise.all(sockets.map(connected))
  await app.close()
  t.same([...new Set((await Promise.all(texts)).map(statusOf))], ['HTTP/1.1 200 OK'])
})

test('a request that is read while the server closes is answered, on a kept connection and on a new one', async (t) => {
  const { app, open } = await serving(t)
  const begun: Socket[] = []
  app.server.on('connection', (socket) => void begun.push(socket))
  const kept = open()
  const keptText = received(kept)
  kept.write(CALL)
  await new Promise((resolve) => kept.once('data', resolve))
  kept.write(CALL.slice(0, 99))
  await until(
    () => begun[0]?.bytesRead,
    (bytes) => bytes === CALL.length + 99,
  )
  const slow = [open(), open()]
  const texts = slow.map(received)
  slow[0]?.write(CALL.slice(0, 99))
  slow[1]?.write(CALL.slice(0, -99))
  await until(
    () => begun.map(({ bytesRead }) => bytesRead),
    (found) => found.length === 3 && !found.includes(0),
  )
  const closed = app.close()
  await until(
    () => app.server.listening,
    (listening) => !listening,
  )
  kept.write(CALL.slice(99))
  slow[0]?.write(CALL.slice(99))
  slow[1]?.write(CALL.slice(-99))
  await closed
  const kepts = (await keptText).split('HTTP/1.1 200 OK')
  t.equal(count(kepts, /"status":"completed"/), 2)
  for (const text of await Promise.all(texts)) t.match(text, /^HTTP\/1\.1 200 OK[\s\S]*"status":"completed"/)
})

test('who has connected and not yet asked is answered, and who never asks is waited for shortly', async (t) => {
  const { app, open } = await serving(t)
  const [late, silent] = [open(), open()]
  const [answer, nothing] = [received(late), received(silent)]
  await Promise.all([connected(late), connected(silent)])
  const closed = app.close()
  await until(
    () => app.server.listening,
    (listening) => !listening,
  )
  late.write(CALL)
  t.match(await answer, /^HTTP\/1\.1 200 OK[\s\S]*"status":"completed"/)
  await closed
  t.equal(await nothing, '')
})

test('who was just answered on a kept connection may ask once more, and who does not is waited for shortly', async (t) => {
  const { app, open } = await serving(t)
  const [again, done] = [open(), open()]
  const [answers, answer] = [received(again), received(done)]
  for (const socket of [again, done]) {
    socket.write(CALL)
    await new Promise((resolve) => socket.once('data', resolve))
  }
  const closed = app.close()
  await until(
    () => app.server.listening,
    (listening) => !listening,
  )
  again.write(CALL)
  await closed
  t.equal((await answers).split('"status":"completed"').length, 3)
  t.equal((await answer).split('"status":"completed"').length, 2)
})

test('a connection is not waited for where its answer had promised to keep it', async (t) => {
  let end = () => {}
  const { app, open } = await serving(t, {
    routes: (routes) => {
      routes.get('/long', (_request, reply) => {
        const { raw } = reply.hijack()
        raw.write('half of it')
        end = () => void raw.end()
      })
    },
  })
  const socket = open()
  const text = received(socket)
  socket.write('GET /long HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')
  await new Promise((resolve) => socket.once('data', resolve))
  const closed = app.close()
  await until(
    () => app.server.listening,
    (listening) => !listening,
  )
  end()
  await closed
  t.match(await text, /half of it/)
})

/** A server with an answer that no system keeps for its reader. */
async function servingLarge(t: Test) {
  let at = Date.now()
  let begun = 0
  const { app, open } = await serving(t, {
    now: () => at,
    routes: (routes) => {
      routes.get('/large', () => {
        begun += 1
        return LARGE
      })
    },
  })
  const idle = open()
  const idleText = received(idle)
  idle.write(CALL)
  await new Promise((resolve) => idle.once('data', resolve))
  return {
    /** Asks for it a number of times; reads nothing. */
    async ask(times: number): Promise<Socket> {
      const socket = open().pause()
      t.teardown(() => socket.destroy())
      socket.write('GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.repeat(times))
      await until(() => begun, Boolean)
      return socket
    },
    /** Resolves when the connections have been ended of those who do not ask again. */
    async close(): Promise<{ closed: Promise<void>; pass(ms: number): void }> {
      const closed = app.close() as unknown as Promise<void>
      await idleText
      return {
        closed,
        pass: (ms) => {
          at += ms
        },
      }
    },
  }
}

const bodiesIn = (text: string) => text.split(LARGE).length - 1

test('an answer that is being read is sent to its end', async (t) => {
  const { ask, close } = await servingLarge(t)
  const socket = await ask(1)
  const { closed } = await close()
  t.equal(bodiesIn(await received(socket.resume())), 1)
  await closed
})

test('who reads late has all answers to what it sent without waiting for them', async (t) => {
  const { ask, close } = await servingLarge(t)
  const socket = await ask(4)
  const { closed } = await close()
  const text = await received(socket.resume())
  t.equal(bodiesIn(text), 4)
  t.equal(text.match(/\r\nconnection: close\r\n/gi)?.length, 1, 'the last of them closes')
  await closed
})

test('a server that closes does not wait for ever for who reads nothing', async (t) => {
  const { ask, close } = await servingLarge(t)
  await ask(1)
  const { closed, pass } = await close()
  pass(170_000)
  await closed
})

test('a request that had begun behind an answered one is waited for', async (t) => {
  const { app, open } = await serving(t)
  const [idle, begun] = [open(), open()]
  const [idleText, text] = [received(idle), received(begun)]
  begun.write(CALL + CALL.slice(0, 99)) // in one read
  idle.write(CALL)
  await Promise.all([idle, begun].map((one) => new Promise((resolve) => one.once('data', resolve))))
  const closed = app.close()
  await idleText
  begun.write(CALL.slice(99))
  await closed
  t.equal((await text).split('"status":"completed"').length, 3)
})

test('requests that were sent without waiting for answers are all answered', async (t) => {
  const { app, open } = await serving(t)
  const sockets = Array.from({ length: 20 }, open)
  const texts = sockets.map(received)
  sockets.forEach((socket, n) => void socket.write((n % 2 === 0 ? CALL : CALL_OF_FASTIFY).repeat(3)))
  await Promise.all(sockets.map(connected))
  await app.close()
  for (const text of await Promise.all(texts)) {
    t.equal(text.split('"status":"completed"').length, 4)
    t.equal(text.match(/\r\nconnection: close\r\n/gi)?.length, 1, 'the last of them closes')
  }
})

test('how long a server that closes takes does not grow with what one caller sent ahead', async (t) => {
  let at = Date.now()
  let begun = 0
  let release = () => {}
  const { app, open } = await serving(t, {
    now: () => at,
    routes: (routes) => {
      routes.get('/slow', async () => {
        begun += 1
        await new Promise<void>((resolve) => {
          release = resolve
        })
        return {}
      })
    },
  })
  const socket = open()
  const text = received(socket)
  socket.write('GET /slow HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.repeat(5))
  await until(() => begun, Boolean)
  const closed = app.close()
  await until(
    () => app.server.listening,
    (listening) => !listening,
  )
  release()
  await until(
    () => begun,
    (count) => count === 2,
  )
  at += 35_000
  release()
  await closed
  const heads = (await text).match(/\r\nconnection: [\w-]+/gi)
  t.same(heads, ['\r\nconnection: keep-alive', '\r\nconnection: close'])
  t.equal(begun, 2, 'what may be sent again elsewhere has had no effect')
})

test('every request of a connection that ends is told, also one whose turn has not come', async (t) => {
  let begun = 0
  let closed = 0
  const { open } = await serving(t, {
    routes: (routes) => {
      routes.addHook('onRequest', (_request, { raw }, done) => {
        begun += 1
        raw.once('close', () => {
          closed += 1
        })
        done()
      })
      routes.get('/long', (_request, reply) => void reply.hijack())
    },
  })
  const socket = open()
  socket.write('GET /long HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.repeat(20))
  const count = (found: number) => found === 20
  await until(() => begun, count)
  socket.destroy()
  t.equal(await until(() => closed, count), 20)
})
