import { connect, type Socket } from 'node:net'
import { test } from 'tap'
import { startServer } from '../support/server-fixture.js'
import { until } from '../support/until.js'

const BEGUN = 'POST /mcp HTTP/1.1\r\nhost: tributary.example\r\ncontent-type: application/json\r\n'
const SLOW = {
  'sends nothing': '',
  'stops within its headers': BEGUN,
  'stops within its body': `${BEGUN}content-length: 1000\r\n\r\n{`,
  'stops within its chunks': `${BEGUN}transfer-encoding: chunked\r\n\r\n1\r\n{\r\n`,
}
const CUT_OFF_MS = 45_000 // half a minute, until it is looked for, and a busy machine

/** What the callers get, each by what it does; those that begin go on with a byte a second. */
function cutOff(port: number): Promise<string>[] {
  return Object.entries(SLOW).map(
    ([what, sent]) =>
      new Promise<string>((resolve) => {
        const socket = connect(port, '127.0.0.1', () => socket.write(sent))
        const late = setTimeout(() => socket.destroy(), CUT_OFF_MS)
        const dribbling = setInterval(() => sent.includes('{') || sent === '' || socket.write('a'), 1_000)
        let status = ''
        socket.on('data', (bytes) => {
          status = bytes.toString('latin1', 9, 12)
        })
        socket.on('error', () => {})
        socket.on('close', () => {
          clearTimeout(late)
          clearInterval(dribbling)
          resolve(`${what}: ${status}`)
        })
      }),
  )
}

const DONE = Object.keys(SLOW).map((what) => `${what}: 408`)

test('a caller that does not come to the end of its request is cut off', { timeout: 120_000 }, async (t) => {
  const { url } = await startServer(t)
  t.same(await Promise.all(cutOff(Number(new URL(url).port))), DONE)
})

test('so is it by a server that closes, which ends then', { timeout: 120_000 }, async (t) => {
  const { app, url } = await startServer(t)
  const begun: Socket[] = []
  app.server.on('connection', (socket) => void begun.push(socket))
  const cut = cutOff(Number(new URL(url).port))
  await until(
    () => begun.filter(({ bytesRead }) => bytesRead > 0),
    (some) => some.length === DONE.length - 1,
  )
  await app.close()
  t.same(await Promise.all(cut), ['sends nothing: ', ...DONE.slice(1)])
})
