import { type IncomingHttpHeaders, request } from 'node:http'
import { gunzipSync } from 'node:zlib'
import { test } from 'tap'
import { takesGzip } from '../../src/server/answer/gzip.js'
import { feedOf, listing } from '../support/server-feed.js'
import { BUYER_TOKEN, startServer } from '../support/server-fixture.js'

type Raw = { headers: IncomingHttpHeaders; body: Buffer }

/** The answer's bytes as they came; fetch would decompress them. */
function post(url: string, body: unknown, encoding: string): Promise<Raw> {
  const headers = {
    'content-type': 'application/json',
    authorization: `Bearer ${BUYER_TOKEN}`,
    'mcp-protocol-version': '2025-06-18',
    'a2a-version': '1.0',
    'accept-encoding': encoding,
  }
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', headers }, (reply) => {
      const chunks: Buffer[] = []
      reply.on('data', (chunk: Buffer) => chunks.push(chunk))
      reply.on('end', () => resolve({ headers: reply.headers, body: Buffer.concat(chunks) }))
    })
    sent.on('error', reject)
    sent.end(JSON.stringify(body))
  })
}

function page(context: object, id: unknown = 1) {
  const args = { discovery_mode: 'wholesale', pagination: { max_results: 100 }, context }
  return { jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'get_signals', arguments: args } }
}

/** Asks until the page comes compressed: it is prepared behind the second answer. */
async function compressed(url: string, body: unknown): Promise<Raw> {
  for (const end = Date.now() + 60_000; Date.now() < end; ) {
    const reply = await post(url, body, 'gzip')
    if (reply.headers['content-encoding'] === 'gzip') return reply
  }
  throw new Error('the page never came compressed')
}

test('a page that is asked for again comes compressed, and is the same bytes', async (t) => {
  const { url } = await startServer(t)
  const plain = await post(`${url}/mcp`, page({ n: 1 }), 'identity')
  t.equal(plain.headers['content-encoding'], undefined)
  t.match(plain.headers.vary, /Accept-Encoding/)
  const first = await post(`${url}/mcp`, page({ n: 1 }), 'gzip')
  t.same(first.body, plain.body, 'the first answer does not wait for the compression')
  const packed = await compressed(`${url}/mcp`, page({ n: 1 }))
  t.match(packed.headers.vary, /Accept-Encoding/)
  t.same(gunzipSync(packed.body), plain.body)
  t.ok(packed.body.byteLength < plain.body.byteLength / 3)
})

test('what is the caller’s own is not part of what was prepared, whatever its size', async (t) => {
  const { url } = await startServer(t)
  await compressed(`${url}/mcp`, page({}))
  for (const context of [{ me: 'one' }, { me: 'two ☃' }, { long: 'x'.repeat(200_000) }]) {
    const reply = await post(`${url}/mcp`, page(context, 'an id'), 'gzip')
    t.equal(reply.headers['content-encoding'], 'gzip')
    const answer = JSON.parse(gunzipSync(reply.body).toString())
    t.same(answer.result.structuredContent.context, context)
    t.equal(answer.id, 'an id')
  }
})

test('A2A shares what MCP prepared', async (t) => {
  const { url } = await startServer(t)
  await compressed(`${url}/mcp`, page({}))
  const input = { discovery_mode: 'wholesale', pagination: { max_results: 100 } }
  const message = { messageId: 'm', parts: [{ data: { skill: 'get_signals', input } }] }
  const reply = await post(
    `${url}/a2a`,
    { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } },
    'gzip',
  )
  t.equal(reply.headers['content-encoding'], 'gzip')
  const { result } = JSON.parse(gunzipSync(reply.body).toString())
  t.equal(result.task.artifacts[0].parts[0].data.signals.length, 100)
})

test('a page ends well where the text behind its rows is compressed, too', async (t) => {
  const long = { name: 'name '.repeat(40), data_provider: 'provider '.repeat(40) }
  const shown = [1, 2, 3].map((n) => ({
    type: 'platform' as const,
    platform: `${n}${'-on'.repeat(40)}`,
    is_live: true,
  }))
  const listings = Array.from({ length: 100 }, (_, n) => ({ ...listing(`s${n}`, 1, shown), ...long }))
  const { url } = await startServer(t, { feed: feedOf({ listings }) })
  const input = { discovery_mode: 'wholesale', pagination: { max_results: 100 } }
  const message = { messageId: 'm', parts: [{ data: { skill: 'get_signals', input } }] }
  const body = { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } }
  const partsOf = (bytes: Buffer) => JSON.parse(bytes.toString()).result.task.artifacts[0].parts
  const plain = partsOf((await post(`${url}/a2a`, body, 'identity')).body)
  t.ok(plain[1].text.length > 2_048, 'it is long enough to be compressed')
  t.same(partsOf(gunzipSync((await compressed(`${url}/a2a`, body)).body)), plain)
})

test('gzip is sent only to who takes it', (t) => {
  for (const accept of [
    ...['gzip', 'gzip, deflate, br', 'br;q=1, gzip;q=0.5', 'GZIP', 'x-gzip', 'gzip;q=0.001'],
    ...['*;q=0, gzip', 'br;q=0,gzip ; q=1', ', ,gzip,'],
  ])
    t.equal(takesGzip(accept), true, accept)
  for (const accept of [
    ...[undefined, '', 'br', 'gzip;q=0', 'gzip; q=0.0, br', 'x-gzipped', 'not-gzip', 'gzip-not', 'gzip.1'],
    ...['gzip;Q=0', 'gzip ;q=0.000', 'br, gzip\t;\tq=0\t, *', 'br;gzip', 'br;a=gzip'],
  ])
    t.equal(takesGzip(accept), false, String(accept))
  t.end()
})
