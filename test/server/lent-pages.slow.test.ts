/** A page that nobody asked for before is written into memory that the next one gets: only once it has left. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'tap'
import type { Listing } from '../../src/upstreams/rows/slice.js'
import { feedOf, listing } from '../support/server-feed.js'
import { BUYER_TOKEN, startServer } from '../support/server-fixture.js'

const SIGNALS = 2_500
const SIZE = 100
const HEADERS = {
  authorization: `Bearer ${BUYER_TOKEN}`,
  'mcp-protocol-version': '2025-06-18',
  'a2a-version': '1.0',
}

/** Rows of one length, so that pages are of one length, too. */
function fixed(n: number): Listing {
  const made = listing(`s${10_000 + n}`)
  return { ...made, description: `${made.signal_agent_segment_id} `.repeat(100) }
}

const feed = feedOf({ listings: Array.from({ length: SIGNALS }, (_, n) => fixed(n)) })

const input = (fields: string[], cursor: string | undefined, size: number) => ({
  ...{ discovery_mode: 'wholesale', fields },
  pagination: { max_results: size, ...(cursor && { cursor }) },
})
const call = (given: object) =>
  JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
    params: { name: 'get_signals', arguments: given },
  })
const skill = (data: object) => ({
  ...{ jsonrpc: '2.0', id: 1, method: 'SendMessage' },
  params: { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ data }] } },
})

type Server = Awaited<ReturnType<typeof startServer>>

/** The questions of a walk that shows these fields. The cursors come from a walk that shows others. */
async function walk(server: Server, fields: string[], most: number, size = SIZE): Promise<object[]> {
  const found: object[] = []
  let cursor: string | undefined
  do {
    found.push(input(fields, cursor, size))
    cursor = (await server.call('get_signals', input(['taxonomy'], cursor, size))).pagination.cursor
  } while (cursor && found.length < most)
  return found
}

const askOver = (server: Server, given: object, headers: object = {}) =>
  server.post('/mcp', call(given), { ...HEADERS, ...headers })

/** The signals of each answer on a connection, in order. */
async function answersOn(socket: Socket, count: number): Promise<unknown[]> {
  const found: unknown[] = []
  let bytes = Buffer.alloc(0)
  let head = -1
  let end = 0
  for await (const chunk of socket) {
    bytes = Buffer.concat([bytes, chunk as Buffer])
    for (;;) {
      if (head < 0) {
        head = bytes.indexOf('\r\n\r\n')
        if (head < 0) break
        const length = /content-length: (\d+)/i.exec(bytes.toString('latin1', 0, head))
        end = head + 4 + Number(length?.[1])
      }
      if (bytes.length < end) break
      found.push(JSON.parse(bytes.toString('utf8', head + 4, end)).result.structuredContent.signals)
      bytes = bytes.subarray(end)
      head = -1
    }
    if (found.length === count) break
  }
  return found
}

test('pages stay what they are as long as their reader does not take them, whatever is answered meanwhile', async (t) => {
  const server = await startServer(t, { feed })
  const questions = await walk(server, ['name', 'description'], 24)
  const { hostname, port, host } = new URL(server.url)
  const slow = connect(Number(port), hostname)
  await once(slow, 'connect')
  slow.pause()
  for (const question of questions) {
    const body = call(question)
    const heads = Object.entries({ ...HEADERS, host, 'content-type': 'application/json' })
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('')
    slow.write(`POST /mcp HTTP/1.1\r\n${heads}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
  }
  for (const question of await walk(server, ['description'], 24)) await askOver(server, question)
  const taken = await answersOn(slow, questions.length)
  slow.destroy()
  t.equal(taken.length, questions.length)
  for (const [at, question] of questions.entries()) {
    const kept = await askOver(server, question)
    if (JSON.stringify(taken[at]) === JSON.stringify(kept.json.result.structuredContent.signals)) continue
    return t.fail(`page ${at} is another's`)
  }
})

test('a task of A2A keeps its page while others are answered', async (t) => {
  const server = await startServer(t, { feed })
  const [question] = await walk(server, ['name', 'description'], 1, 99)
  const sent = await server.post('/a2a', skill({ skill: 'get_signals', input: question }), HEADERS)
  for (const other of await walk(server, ['description'], 10, 99)) await askOver(server, other)
  const { id, artifacts } = sent.json.result.task
  const ask = { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id } }
  const again = await server.post('/a2a', ask, HEADERS)
  t.equal(artifacts[0].parts[0].data.signals.length, 99)
  t.same(again.json.result.artifacts, artifacts)
})

test('what was compressed of one page is never sent as another', async (t) => {
  const server = await startServer(t, { feed })
  const questions = await walk(server, ['description'], 20, 98)
  const plain: unknown[] = []
  const packed: unknown[] = []
  for (const question of questions) {
    const reply = await askOver(server, question, { 'accept-encoding': 'gzip' })
    packed.push(reply.json.result.structuredContent.signals)
  }
  for (const question of questions) {
    const reply = await askOver(server, question, { 'accept-encoding': 'identity' })
    plain.push(reply.json.result.structuredContent.signals)
  }
  t.equal(new Set(packed.map((signals) => JSON.stringify(signals))).size, questions.length)
  t.ok(JSON.stringify(packed) === JSON.stringify(plain))
})
