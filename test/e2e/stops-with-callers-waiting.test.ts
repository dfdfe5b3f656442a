import { connect, type Socket } from 'node:net'
import { test } from 'tap'
import { startWorld } from '../support/federation.js'

const CALLERS = 100

test('whoever has connected before a stop is answered, also where the thread has not come to it', async (t) => {
  const { federation, close } = await startWorld()
  t.teardown(close)
  const { port, hostname, host } = new URL(federation.url)
  const answered = (socket: Socket) =>
    new Promise<string>((resolve) => {
      let text = ''
      socket.setEncoding('utf8')
      socket.on('data', (chunk) => {
        text += chunk
      })
      socket.on('error', ({ message }) => resolve(message))
      socket.on('close', () => resolve(text))
    })
  const sockets = Array.from({ length: CALLERS }, () => connect(Number(port), hostname))
  const answers = sockets.map(answered)
  for (const socket of sockets)
    socket.write(`GET /healthz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
  await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('connect', resolve))))
  await federation.drain()
  await federation.close()
  t.same([...new Set((await Promise.all(answers)).map((text) => text.slice(0, 15)))], ['HTTP/1.1 200 OK'])
})
