/** Edges of the protocols under both transports: batches, character sets, empty words. */
import { test } from 'tap'
import { BUYER_TOKEN, startServer } from '../support/server-fixture.js'

const bearer = { authorization: `Bearer ${BUYER_TOKEN}` }
const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }

test('a batch is none of the messages of 2025-06-18, however long it is', async (t) => {
  const { post } = await startServer(t)
  const since = { ...bearer, 'mcp-protocol-version': '2025-06-18' }
  t.equal((await post('/mcp', [ping], since)).status, 400)
  t.equal((await post('/mcp', [ping], { ...bearer, 'mcp-protocol-version': '2025-03-26' })).status, 200)
})

test('a body that declares another character set is not read as UTF-8', async (t) => {
  const { post } = await startServer(t)
  const as = (type: string) => post('/mcp', ping, { ...bearer, 'content-type': type })
  for (const type of ['application/json; charset=utf-16', 'application/json;charset="ISO-8859-1"']) {
    const { status, text } = await as(type)
    t.equal(status, 415, type)
    t.match(text, /must be in UTF-8/)
  }
  for (const type of [
    'application/json; charset=utf-8',
    'application/json; charset=UTF8',
    'application/json',
  ]) {
    t.equal((await as(type)).status, 200, type)
  }
})

test('a provider of white space is no provider', async (t) => {
  const { call } = await startServer(t)
  const answer = await call('get_signals', {
    discovery_mode: 'wholesale',
    filters: { data_providers: ['  '] },
  })
  t.match(answer, {
    status: 'failed',
    adcp_error: { code: 'INVALID_REQUEST', field: 'filters.data_providers[0]' },
  })
})

test('what is refused before it is read is told what to send, in our own words', async (t) => {
  const { post, send } = await startServer(t)
  const { status, json } = await send('/events/%zz', {})
  t.equal(status, 400)
  t.same(json, { error: 'The path of this request is not a path: a % stands before two hexadecimal digits' })
  t.match((await post('/mcp', ping, { ...bearer, 'content-type': 'text/plain' })).text, /application\/json/)
})
