import { test } from 'tap'
import { createCallers, createGuesses } from '../../src/server/door/credentials.js'
import { BUYER_TOKEN, OTHER_TOKEN, sha256, startServer } from '../support/server-fixture.js'

const tool = (args: object) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'get_signals', arguments: args },
})
const page = { discovery_mode: 'wholesale', context_id: 'c' }
const message = {
  messageId: 'm',
  role: 'ROLE_USER',
  parts: [{ data: { skill: 'get_signals', input: page } }],
}
const skill = { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } }

test('without credentials, deny is 401 with a challenge on both transports, whatever the body', async (t) => {
  const { post } = await startServer(t, {
    callers: { anonymous: 'deny', keys: [{ id: 'b', tokenSha256: sha256('k'), role: 'buyer' }] },
  })
  for (const [path, bodies] of [
    ['/mcp', [tool(page), { jsonrpc: '2.0', id: 1, method: 'initialize' }, 'not json']],
    ['/a2a', [skill, { jsonrpc: '2.0', id: 1, method: 'Nothing' }, 'not json']],
  ] as const) {
    for (const body of bodies) {
      const { status, headers, json } = await post(path, body)
      t.equal(status, 401)
      t.equal(headers.get('www-authenticate'), 'Bearer realm="tributary"')
      t.equal(json.error.data.adcp_error.code, 'AUTH_REQUIRED')
      t.equal(json.error.data.status, 'failed')
    }
  }
})

test('wrong credentials are 401 even where anonymous callers are welcome', async (t) => {
  const { post } = await startServer(t)
  for (const authorization of ['Bearer wrong', 'Basic YTpi', 'Bearer', `Bearer ${'x'.repeat(9_000)}`]) {
    for (const path of ['/mcp', '/a2a']) {
      const { status, headers } = await post(path, tool(page), { authorization })
      t.equal(status, 401, authorization.slice(0, 20))
      t.match(headers.get('www-authenticate'), /invalid_token/)
    }
  }
  t.equal((await post('/mcp', tool(page), { 'x-adcp-auth': 'wrong' })).status, 401)
})

test('a key opens in either header and in any case of its scheme', async (t) => {
  const { post } = await startServer(t)
  for (const headers of [
    { authorization: `Bearer ${BUYER_TOKEN}` },
    { authorization: `bearer   ${BUYER_TOKEN}` },
    { 'x-adcp-auth': BUYER_TOKEN },
  ] as Record<string, string>[]) {
    const { json } = await post('/mcp', tool(page), { 'mcp-protocol-version': '2025-06-18', ...headers })
    t.ok(json.result.structuredContent.signals[0].pricing_options, 'prices are there')
  }
})

test('an anonymous caller sees metadata only, and is told so', async (t) => {
  const { post } = await startServer(t)
  const { json } = await post('/mcp', tool(page), { 'mcp-protocol-version': '2025-06-18' })
  const { signals, message } = json.result.structuredContent
  t.notOk('pricing_options' in signals[0])
  t.match(message, /need credentials/)
})

test('an account that is missing and one of somebody else get the same bytes', async (t) => {
  const { post } = await startServer(t)
  const ask = async (account: object, token = BUYER_TOKEN) => {
    const headers = { authorization: `Bearer ${token}`, 'mcp-protocol-version': '2025-06-18' }
    return (await post('/mcp', tool({ ...page, account }), headers)).text
  }
  const foreign = await ask({ account_id: 'acc_2' })
  t.match(foreign, /ACCOUNT_NOT_FOUND/)
  t.equal(foreign, await ask({ account_id: 'missing' }))
  t.equal(foreign, await ask({ account_id: '__proto__' }))
  t.match(await ask({ account_id: 'acc_2' }, OTHER_TOKEN), /"status":"completed"/)
  const { json } = await post('/mcp', tool({ ...page, account: { account_id: 'acc_1' } }), {
    'mcp-protocol-version': '2025-06-18',
  })
  t.equal(json.result.structuredContent.adcp_error.code, 'AUTH_REQUIRED')
})

test('an account named by its natural key, or declared by the caller, reads the rate card', async (t) => {
  const asked: string[] = []
  const { call } = await startServer(t, {
    declaredAccounts: async (caller, id) => {
      asked.push(`${caller} ${id}`)
      return id === 'declared'
    },
  })
  const natural = { brand: { domain: 'acme.example' }, operator: 'agency.example' }
  const open = await call('get_signals', page)
  for (const account of [natural, { account_id: 'declared' }]) {
    const answer = await call('get_signals', { ...page, account })
    t.same(answer, open)
    t.equal(answer.cache_scope, 'public')
  }
  const missing = await call('get_signals', { ...page, account: { account_id: 'missing' } })
  t.equal(missing.adcp_error.code, 'ACCOUNT_NOT_FOUND')
  t.same(asked, ['buyer declared', 'buyer missing'])
})

test('two callers cannot share an id or a key', (t) => {
  const key = (id: string, token: string) => ({ id, tokenSha256: sha256(token), role: 'buyer' as const })
  const make = (...keys: ReturnType<typeof key>[]) =>
    createCallers({ anonymous: 'deny', keys, guesses: createGuesses(Date.now) })
  t.throws(() => make(key('a', '1'), key('a', '2')), /Two callers have the id a/)
  t.throws(() => make(key('a', '1'), key('b', '1')), /key of another caller/)
  t.throws(() => make({ ...key('a', '1'), tokenSha256: 'short' }), /64 hex digits/)
  t.throws(() => make(key('anonymous', '1')), /anonymous/)
  t.end()
})
