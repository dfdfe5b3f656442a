import type { Socket } from 'node:net'
import { test } from 'tap'
import { startHttp } from '../support/upstream-agent.js'
import { loopback, openEgress } from '../support/upstream-egress.js'
import { until } from '../support/upstream-world.js'

const COUNT = 8
const LONGEST_MS = 50_000 // they are kept for thirty seconds

test('no server decides how long a connection to it is kept', async (t) => {
  const { server, url, close } = await startHttp((_, response) => {
    response.setHeader('connection', 'keep-alive').setHeader('keep-alive', 'timeout=600').end('ok')
  })
  t.teardown(close)
  server.keepAliveTimeout = 0 // it never closes one itself
  const open = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.on('close', () => open.delete(socket))
  })
  const { get } = openEgress(t, loopback)
  const replies = await Promise.all(Array.from({ length: COUNT }, () => get(url)))
  t.ok(replies.every(({ kind }) => kind === 'reply'))
  t.ok(open.size > 0)
  await until('all are closed', () => open.size === 0, LONGEST_MS)
})
