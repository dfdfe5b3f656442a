import { connect } from 'node:net'
import { test } from 'tap'
import { startServer } from '../support/server-fixture.js'

const BEGUN = 'POST /mcp HTTP/1.1\r\nhost: tributary.example\r\ncontent-type: application/json\r\n'
const SLOW = {
  'sends nothing': '',
  'stops within its headers': BEGUN,
  'stops within its body': `${BEGUN}content-length: 1000\r\n\r\n{`,
  'stops within its chunks': `${BEGUN}transfer-encoding: chunked\r\n\r\n1\r\n{\r\n`,
}
const CUT_OFF_MS = 45_000 // half a minute, until it is looked for, and a busy machine

test('a caller that does not come to the end of its request is cut off', { timeout: 120_000 }, async (t) => {
  const { url } = await startServer(t)
  const port = Number(new URL(url).port)
  const cut = Object.entries(SLOW).map(
    ([what, sent]) =>
      new Promise<string>((resolve) => {
        const socket = connect(port, '127.0.0.1', () => socket.write(sent))
        const late = setTimeout(() => socket.destroy(), CUT_OFF_MS)
        let status = ''
        socket.on('data', (bytes) => {
          status = bytes.toString('latin1', 9, 12)
        })
        socket.on('error', () => {})
        socket.on('close', () => {
          clearTimeout(late)
          resolve(`${what}: ${status}`)
        })
      }),
  )
  t.same(
    await Promise.all(cut),
    Object.keys(SLOW).map((what) => `${what}: 408`),
  )
})
