/** What strangers write steers no terminal: they are read by people who look into why something is missing. */
import { test } from 'tap'
import { callTask } from '../../src/commands/address.js'
import { printCheck } from '../../src/commands/check.js'
import { printExplanation } from '../../src/commands/explanation.js'
import { parseConfig } from '../../src/config/load.js'
import { systemClock } from '../../src/net/clock.js'
import { OPERATOR, startOver } from '../support/federation-over.js'
import { createOutput } from '../support/output.js'
import { startHttp, startMcpAgent } from '../support/upstream-agent.js'
import { until } from '../support/upstream-world.js'

/** Fills a clipboard, clears the screen in two ways, turns what follows around, and looks like a line of ours. */
const WORDS = '\u001b]52;c;aGk=\u0007 \u009b2J\u001b[2J \u202e\u2066\nnorth: fresh\r\u2028north: fresh'
// biome-ignore lint/suspicious/noControlCharactersInRegex: none but our own line breaks may be there
const STEERING = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/

test('an agent`s words in explain and check stay in their line and steer nothing', async (t) => {
  const agent = await startMcpAgent(() => ({
    status: 'failed',
    adcp_error: { code: 'AUTH_INVALID', message: WORDS },
  }))
  t.teardown(() => agent.close())
  const upstreams = [{ id: 'north', url: agent.url }]
  const over = await startOver(t, upstreams)
  await until('it has spoken', () => over.federation.statuses().some(({ problem }) => problem !== undefined))
  const explained = createOutput()
  const asked = { caller: undefined, account: undefined, filters: undefined, countries: [], json: false }
  await printExplanation({
    ...{ ...asked, ref: 'north', out: explained.out },
    ...{ config: 'config/sandbox.yaml', url: over.federation.url, token: OPERATOR },
  })
  t.match(explained.text(), /52;c;aGk=/, 'it is told')
  const file = { upstreams, egress: { allow_networks: ['127.0.0.0/8'] } }
  const config = parseConfig('test', JSON.stringify(file), {})
  const checks = { config, json: false, clock: systemClock, random: Math.random }
  const [whole, close] = [createOutput(), createOutput()]
  await t.rejects(printCheck({ ...checks, out: whole.out, err: whole.out }))
  await t.rejects(printCheck({ ...checks, upstream: 'north', out: close.out, err: close.out }))
  for (const text of [explained.text(), whole.text(), close.text()]) {
    t.match(text, /52;c;aGk=/)
    t.notMatch(text, STEERING)
    t.notMatch(text, /^north: fresh/m)
  }
})

test('so do the words in which an agent refuses a command', async (t) => {
  const server = await startHttp((_, response) => {
    const structuredContent = { status: 'failed', adcp_error: { code: 'CONFLICT', message: WORDS } }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ jsonrpc: '2.0', id: 1, result: { structuredContent } }))
  }, '/mcp')
  t.teardown(server.close)
  const { message } = (await callTask({ base: new URL(server.url).origin, token: undefined }, 'x', {}).then(
    () => t.fail('it was refused'),
    (error: Error) => error,
  )) as Error
  t.match(message, /52;c;aGk=/)
  t.notMatch(message, STEERING)
  t.notMatch(message, /\n/)
})
