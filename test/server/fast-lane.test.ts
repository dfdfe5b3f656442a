import { request } from 'node:http'
import { connect } from 'node:net'
import { test } from 'tap'
import { BUYER_TOKEN, startServer } from '../support/server-fixture.js'

const HEADERS = {
  authorization: `Bearer ${BUYER_TOKEN}`,
  'mcp-protocol-version': '2025-06-18',
  'a2a-version': '1.0',
  'x-request-id': 'same',
}

const tool = (args: object) => ({
  ...{ jsonrpc: '2.0', id: 7, method: 'tools/call' },
  params: { name: 'get_signals', arguments: args },
})
const skill = (input: object) => ({
  ...{ jsonrpc: '2.0', id: 'seven', method: 'SendMessage' },
  params: {
    message: { messageId: 'm', role: 'ROLE_USER', parts: [{ data: { skill: 'get_signals', input } }] },
  },
})

/** Posts a body in pieces of unknown length together, which no fast lane takes. */
function postChunked(url: string, body: string): Promise<{ status: number | undefined; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = { ...HEADERS, 'content-type': 'application/json' }
    const sent = request(url, { method: 'POST', headers }, (reply) => {
      let text = ''
      reply.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk
      })
      reply.on('end', () => resolve({ status: reply.statusCode, text }))
    })
    sent.on('error', reject)
    sent.write(body.slice(0, 20))
    sent.end(body.slice(20))
  })
}

const withoutNames = (text: string) =>
  text.replaceAll(/a2a_[\w-]{16}_[\w-]+/g, 'a2a').replaceAll(/"timestamp":"[^"]+"/g, '"timestamp":""')

test('a request is answered alike whichever way it takes', async (t) => {
  const { url, post } = await startServer(t)
  const page = { discovery_mode: 'wholesale', pagination: { max_results: 3 } }
  const bodies: [string, string][] = [
    ...[page, { ...page, context: { a: 1 } }, { discovery_mode: 'x' }, {}].flatMap(
      (args): [string, string][] => [
        ['/mcp', JSON.stringify(tool(args))],
        ['/a2a', JSON.stringify(skill(args))],
      ],
    ),
    ['/mcp', '{"jsonrpc":"2.0","method":"notifications/initialized"}'],
    ['/mcp', '{"jsonrpc":"2.0","id":1,"method":"ping"}'],
    ['/mcp', 'no JSON'],
    ['/a2a', '{}'],
  ]
  for (const [path, body] of bodies) {
    const fast = await post(path, body, HEADERS)
    const slow = await postChunked(url + path, body)
    t.equal(fast.status, slow.status, body)
    t.equal(withoutNames(fast.text), withoutNames(slow.text), body)
    t.equal(fast.headers.get('x-request-id'), 'same')
  }
})

test('what is not plain is refused as ever', async (t) => {
  const { post, send } = await startServer(t)
  const body = JSON.stringify(tool({}))
  t.equal((await post('/mcp', body, { 'content-type': 'text/plain' })).status, 415)
  t.equal((await post('/mcp', body, { 'content-encoding': 'gzip' })).status, 415)
  t.equal((await post('/mcp', 'x'.repeat(1024 * 1024 + 1))).status, 413)
  t.equal((await post('/mcp', '')).status, 400)
  t.equal((await send('/mcp', { method: 'GET' })).status, 405)
})

test('a body that comes in pieces is whole, and a sender that hangs up half-way disturbs nobody', async (t) => {
  const { url, raw, post } = await startServer(t)
  const body = JSON.stringify(tool({ discovery_mode: 'wholesale', context: { name: 'Zoë' } }))
  const bytes = Buffer.from(body)
  const { port, hostname } = new URL(url)
  const head = `POST /mcp HTTP/1.1\r\nhost: ${hostname}:${port}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ${bytes.byteLength}\r\n\r\n`
  const answer = await new Promise<string>((resolve, reject) => {
    const socket = connect(Number(port), hostname)
    let text = ''
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
    socket.on('close', () => resolve(text)).on('error', reject)
    const rest = [...bytes].map((_, at) => bytes.subarray(at, at + 1))
    const next = () => {
      const piece = rest.shift()
      if (piece) socket.write(piece, next)
    }
    socket.write(head, next)
  })
  t.match(answer, /"context":\{"name":"Zoë"\}/)
  const cut = connect(Number(port), hostname)
  await new Promise<void>((resolve) => cut.write(head + body.slice(0, 10), () => resolve()))
  cut.destroy()
  t.match(await raw(head + body), /^HTTP\/1.1 200 /)
  t.equal((await post('/mcp', body, HEADERS)).status, 200)
})

test('a bug on the way is a 500 and a log line, on either way', async (t) => {
  let isBroken = false
  const now = () => {
    if (isBroken) throw new Error('the clock fell off the wall')
    return Date.now()
  }
  const { url, post, lines } = await startServer(t, { now })
  isBroken = true
  const { status, text } = await post('/mcp', '{"jsonrpc":"2.0","id":1,"method":"ping"}', HEADERS)
  const slow = await postChunked(`${url}/mcp`, '{"jsonrpc":"2.0","id":1,"method":"ping"}')
  isBroken = false
  t.equal(status, 500)
  t.equal(slow.status, 500)
  t.match(text, /Something went wrong on our side/)
  t.equal(lines.filter((line) => line.includes('the clock fell off the wall')).length, 2)
})
