import fc from 'fast-check'
import { test } from 'tap'
import { proven } from '../support/proven.js'
import { BUYER_TOKEN, OTHER_TOKEN, startServer } from '../support/server-fixture.js'

const headers = { authorization: `Bearer ${BUYER_TOKEN}`, 'mcp-protocol-version': '2025-06-18' }

/** A body whose context is written exactly so. */
function bodyWith(context: string, task = 'get_signals', more = '"discovery_mode":"wholesale"'): string {
  return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${task}","arguments":{${more},"context":${context}}}}`
}

const ODD_CONTEXTS = [
  '{}',
  '{"a":1.0,"big":12345678901234567890,"tiny":1e-400}',
  '{ "spaced" : [ 1 , 2 ] }',
  '{"\\u0041":"\\u00e9","__proto__":{"polluted":true},"constructor":1}',
  '{"twice":1,"twice":2}',
  '{"quote":"\\"}],","brace":"}{"}',
]

test('context comes back byte for byte, whatever is answered', async (t) => {
  const { post } = await startServer(t)
  for (const context of ODD_CONTEXTS) {
    for (const body of [
      bodyWith(context),
      bodyWith(context, 'get_signals', '"discovery_mode":"nonsense"'),
      bodyWith(context, 'get_signals', '"adcp_version":"9.0"'),
      bodyWith(context, 'get_adcp_capabilities', '"ext":{}'),
    ]) {
      const { text } = await post('/mcp', body, headers)
      t.ok(text.endsWith(`"context":${context}}}}`), text.slice(-200))
    }
  }
  t.notOk('polluted' in {}, 'no prototype was touched')
})

test('any JSON object survives as context', async (t) => {
  const { post } = await startServer(t)
  const property = fc.asyncProperty(
    fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 5 })),
    async (value) => {
      const context = JSON.stringify(value)
      const { text } = await post('/mcp', bodyWith(context), headers)
      return text.endsWith(`"context":${context}}}}`)
    },
  )
  await proven(t, 60, property)
  t.pass('every context came back')
})

test('a client of before 2025-06-18 finds the payload as JSON in the text, equal to the structured one', async (t) => {
  const { post } = await startServer(t)
  const olders: Record<string, string>[] = [{}, { 'mcp-protocol-version': '2025-03-26' }]
  for (const older of olders) {
    for (const more of ['"discovery_mode":"wholesale"', '"discovery_mode":"nonsense"']) {
      const { json } = await post('/mcp', bodyWith('{"ü":"☃ \\"x\\""}', 'get_signals', more), {
        authorization: headers.authorization,
        ...older,
      })
      t.same(JSON.parse(json.result.content[0].text), json.result.structuredContent)
    }
  }
})

test('a client of today finds a summary in the text, and the error as JSON', async (t) => {
  const { post } = await startServer(t)
  const ok = (await post('/mcp', bodyWith('{}'), headers)).json.result
  t.ok(ok.content[0].text.startsWith(`${ok.structuredContent.message}\n`))
  t.notOk('isError' in ok)
  const bad = (await post('/mcp', bodyWith('{}', 'get_signals', '"discovery_mode":"x"'), headers)).json.result
  t.equal(bad.isError, true)
  t.same(JSON.parse(bad.content[0].text), { adcp_error: bad.structuredContent.adcp_error })
})

test('the release that is served follows the pin', async (t) => {
  const { call } = await startServer(t)
  const served = async (pin: object) => {
    const answer = await call('get_signals', { discovery_mode: 'wholesale', ...pin })
    return answer.adcp_error?.code ?? answer.adcp_version ?? 'not told'
  }
  t.equal(await served({}), '3.1')
  t.equal(await served({ adcp_version: '3.1' }), '3.1')
  t.equal(await served({ adcp_version: '3.9' }), '3.1')
  t.equal(await served({ adcp_version: '3.0' }), '3.0')
  t.equal(await served({ adcp_version: '3.1-beta.2' }), 'VERSION_UNSUPPORTED', 'a prerelease is only itself')
  t.equal(await served({ adcp_version: '3.2-beta.5' }), 'VERSION_UNSUPPORTED')
  t.equal(await served({ adcp_version: '4.0' }), 'VERSION_UNSUPPORTED')
  t.equal(await served({ adcp_version: '2.5' }), 'VERSION_UNSUPPORTED')
  t.equal(await served({ adcp_major_version: 3 }), '3.1')
  t.equal(await served({ adcp_major_version: 2 }), 'VERSION_UNSUPPORTED')
  t.equal(await served({ adcp_version: '3.1', adcp_major_version: 4 }), 'VERSION_UNSUPPORTED')
  const { adcp_error } = await call('get_signals', { adcp_version: '4.0' })
  t.same(adcp_error.details, {
    supported_versions: ['3.0', '3.1'],
    supported_majors: [3],
    adcp_version: '4.0',
  })
  t.equal(await served({ adcp_version: '3.0', adcp_major_version: 3 }), '3.0')
  for (const pin of [
    { adcp_version: '3.1', adcp_major_version: 2 },
    { adcp_version: '4.0', adcp_major_version: 3 },
    { adcp_version: '3.2-beta.5', adcp_major_version: 4 },
  ]) {
    const { adcp_error: contradiction } = await call('get_signals', pin)
    const words = { field: 'adcp_major_version', message: /two pins name different majors/ }
    t.match(contradiction, { code: 'VERSION_UNSUPPORTED', ...words, details: pin }, JSON.stringify(pin))
  }
  for (const adcp_version of ['3.1-rc.1', '3.2-beta.5']) {
    const { adcp_error: early } = await call('get_signals', { adcp_version, adcp_major_version: 3 })
    const words = { field: 'adcp_version', message: /prerelease is not served as another release/ }
    t.match(early, { code: 'VERSION_UNSUPPORTED', ...words, details: { adcp_version } }, adcp_version)
  }
})

test('context_id: the given one goes on; else a caller has one of its own, so equal questions get equal bytes', async (t) => {
  const { call, post } = await startServer(t)
  const page = { discovery_mode: 'wholesale' }
  t.equal((await call('get_signals', { ...page, context_id: 'session-1' })).context_id, 'session-1')
  t.match((await call('get_signals', { ...page, context_id: 'x"<y>' })).context_id, /^ctx_/)
  const body = bodyWith('{}')
  t.equal((await post('/mcp', body, headers)).text, (await post('/mcp', body, headers)).text)
  const other = await call('get_signals', page, { authorization: `Bearer ${OTHER_TOKEN}` })
  t.not(other.context_id, (await call('get_signals', page)).context_id)
})
