import type { AddressInfo, Socket } from 'node:net'
import { connect } from 'node:net'
import { test } from 'tap'
import { collect } from '../support/collect.js'
import { startServer } from '../support/server-fixture.js'
import { until } from '../support/until.js'

const CONNECTIONS = 20
const CHUNKS = 9_000 // of each: more are refused
const MOST_BYTES = 10 * 1024 * 1024 // kept one by one they take 36 MB

function used(): number {
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

test('a body in chunks of a byte takes as much memory as its bytes', async (t) => {
  const { app } = await startServer(t)
  const served: Socket[] = []
  app.server.on('connection', (socket) => void served.push(socket))
  const head =
    'POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n'
  const body = head + '1\r\n \r\n'.repeat(CHUNKS)
  const before = used()
  for (let n = 0; n < CONNECTIONS; n += 1) {
    const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.write(body)
  }
  await until(
    () => served.reduce((sum, { bytesRead }) => sum + bytesRead, 0),
    (read) => read === body.length * CONNECTIONS,
  )
  const more = used() - before
  t.ok(more < MOST_BYTES, `${Math.round(more / CHUNKS / CONNECTIONS)} bytes for each`)
})
