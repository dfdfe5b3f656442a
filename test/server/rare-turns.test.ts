import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { createRareTurns } from '../../src/server/door/door.js'
import { BUYER_TOKEN, OTHER_TOKEN, startServer } from '../support/server-fixture.js'

const TASKS = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ListTasks', params: {} })
/** A question that nobody asked before. */
const ping = (n: number) =>
  JSON.stringify({ jsonrpc: '2.0', id: n, method: 'ping', params: { _meta: { n } } })

/** Sends all of them at once on one connection, and gives the statuses of those answered so far. */
async function pipeline(t: Test, url: string, path: string, bodies: readonly string[], token = BUYER_TOKEN) {
  const { hostname, port, host } = new URL(url)
  const socket = connect(Number(port), hostname)
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  let text = ''
  socket.setEncoding('latin1').on('data', (part: string) => {
    text += part
  })
  const head = `POST ${path} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\n`
  socket.write(bodies.map((body) => `${head}content-length: ${body.length}\r\n\r\n${body}`).join(''))
  return () => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status))
}

for (const [transport, path, of] of [
  ['MCP', '/mcp', ping],
  ['A2A', '/a2a', () => TASKS],
] as const)
  test(`others take their turns between the many questions of one caller, over ${transport}`, async (t) => {
    const { url, post } = await startServer(t)
    const count = 1_000
    const flood = await pipeline(
      t,
      url,
      path,
      Array.from({ length: count }, (_, n) => of(n)),
    )
    const other = await post(path, of(-1), { authorization: `Bearer ${OTHER_TOKEN}` })
    t.equal(other.status, 200)
    t.ok(flood().length < count, 'the other did not wait for all of the first')
    while (flood().length < count) await wait(20)
  })

test('who has two hundred questions waiting is asked to come again', async (t) => {
  const turns = createRareTurns({ take: () => 0 }, Date.now)
  const asked = Array.from({ length: 201 }, () => turns.next('a')) // one of them has its turn
  t.equal(turns.wait('a'), 1)
  t.equal(turns.wait('b'), 0)
  await Promise.all(asked)
  t.equal(turns.wait('a'), 0)
  t.equal(createRareTurns({ take: () => 7 }, Date.now).wait('a'), 7)
})

test('what was asked before in the same words is answered in the words of its first answer, with its own id', async (t) => {
  const { post } = await startServer(t)
  const list = (id: unknown) => ({ jsonrpc: '2.0', id, method: 'tools/list' })
  const first = await post('/mcp', list('first'))
  const again = await post('/mcp', list(2))
  t.equal(again.json.id, 2)
  t.same({ ...again.json, id: 'first' }, first.json)
  const wrong = { ...list(3), params: { cursor: 7 } }
  for (const _ of [1, 2]) t.equal((await post('/mcp', wrong)).json.error.code, -32602)
})
