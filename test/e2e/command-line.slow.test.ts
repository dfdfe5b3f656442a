import { execFile } from 'node:child_process'
import { readFile, rm } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { type Test, test } from 'tap'
import { callTool } from '../support/call-tool.js'
import { type Running, runCommand, startCommand } from '../support/command.js'
import { demoConfig } from '../support/demo-config.js'
import type { Answer, Signal } from '../support/federation.js'
import { until } from '../support/until.js'

const run = promisify(execFile)

/**
 * Signals of the demo. One agent has no wholesale feed: it is asked for what providers' files name, and nobody can know what a
 * file that is not read yet would name.
 */
const WHOLE = 2_200

/**
 * Serves all that there is to read, from the first line that it prints on, and tells what was printed: a start that a busy
 * machine made open without some of it is followed by another one on the same storage, which tells of nobody absent yet.
 */
async function serveAll(t: Test, config: string): Promise<Running & { url: string }> {
  for (let told = ''; ; ) {
    const server = startCommand(['serve', '--config', config], {}, { longestMs: 280_000 })
    t.teardown(() => server.process.kill('SIGKILL'))
    const [, count, url = ''] = await server.printed(
      /(\d+) signals in one feed at (http:\S+)\/mcp\. A page of it:/,
    )
    await server.printed(/-d '.*'\n/)
    told += server.out()
    const ask = () => callTool<Answer>(url, 'get_signals', { discovery_mode: 'wholesale' }, undefined)
    const isTold = /fogbank\.example +absent/.test(told)
    const out = () => told
    if (Number(count) === WHOLE && isTold) return { ...server, out, url }
    await until(ask, ({ pagination }) => pagination?.total_count === WHOLE)
    server.process.kill('SIGTERM')
    await server.finished
    if (!isTold) await rm(join(dirname(config), 'data'), { recursive: true, force: true })
  }
}

/** The one request that the README makes, and the answer that it promises. */
async function shownInReadme(): Promise<{ request: string; answer: string }> {
  const readme = await readFile('README.md', 'utf8')
  const [, request = '', answer = ''] =
    /^## Ask it\n.*?^```sh\n(.*?)^```.*?^```json\n(.*?)^```/ms.exec(readme) ?? []
  return { request, answer }
}

test('serve shows what each upstream gave and a curl line that works; feed walks it', async (t) => {
  const { file: config } = await demoConfig(t)
  const server = await serveAll(t, config)
  const { url } = server
  t.match(server.out(), /signals\.northwind\.example +fresh/)
  t.match(server.out(), /signals\.gullwing\.example +fresh +\d+ +0 .*agent_not_listed/)
  t.match(server.out(), /signals\.fogbank\.example +absent +0 +0 .*unreachable/)

  const line = server.out().slice(server.out().lastIndexOf('curl -s'))
  const { stdout } = await run('bash', ['-c', line])
  const { result } = JSON.parse(stdout) as { result: { structuredContent: { signals: Signal[] } } }
  t.equal(result.structuredContent.signals.length, 2)
  t.ok(
    result.structuredContent.signals.some(({ pricing_options }) => pricing_options),
    'the demo key sees prices',
  )

  const { request, answer } = await shownInReadme()
  const shown = await run('bash', ['-c', request.replaceAll('http://127.0.0.1:8080', url)])
  t.match(
    JSON.parse(shown.stdout).result.structuredContent,
    JSON.parse(answer),
    'the README shows what comes',
  )

  const address = ['--config', config, '--url', `${url}/mcp`]
  const table = await runCommand(['feed', ...address, '--limit', '3', '--token', 'demo-buyer-key'])
  t.equal(table.code, 0, table.err)
  t.match(table.out, new RegExp(`${WHOLE} signals, the first 3 shown`))
  t.match(table.out, /incomplete \(wholesale_feed\): signals\.fogbank\.example is absent/)
  const lines = await runCommand(['feed', ...address, '--json', '--token', ''])
  const rows = lines.out
    .trim()
    .split('\n')
    .map((row) => JSON.parse(row) as Signal)
  t.equal(rows.length, WHOLE)
  t.ok(
    rows.every(({ pricing_options }) => pricing_options === undefined),
    'nobody without a key sees prices',
  )

  server.process.kill('SIGTERM')
  t.equal((await server.finished).code, 0, 'it stops when asked to')
})

test('a port in use, a bad configuration and a wrong option end with a sentence and an exit code', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1')
  await new Promise((listening) => taken.once('listening', listening))
  t.teardown(() => taken.close())
  const { port } = taken.address() as AddressInfo
  const { file: sharing } = await demoConfig(t, (text) => text, port)
  const inUse = await runCommand(['serve', '--config', sharing])
  t.match(inUse, { code: 1, err: new RegExp(`127\\.0\\.0\\.1:${port} is in use; .*listen\\.port`) })

  const { file: soon } = await demoConfig(t, (text) => text.replace('refresh: 1m', 'refresh: soon'))
  const bad = await runCommand(['serve', '--config', soon])
  t.match(bad, { code: 3, err: /line \d+: registries\[0\]\.refresh: expected a duration .*got "soon"/ })
  t.notMatch(bad.err, / at /, 'no stack')

  const absent = await runCommand(['serve', '--config', '/nowhere/at/all.yaml'])
  t.match(absent, { code: 3, err: /all\.yaml cannot be used/ })

  const wrong = await runCommand(['feed', '--limit', 'many'])
  t.match(wrong, { code: 2, err: /expected a whole number from 0/ })
  const nobody = await runCommand(['feed', '--url', 'http://127.0.0.1:2/mcp'])
  t.match(nobody, { code: 1, err: /127\.0\.0\.1:2.*cannot be reached/ })
  t.notMatch(nobody.err, / at /, 'no stack')
})

test('--help is everywhere', async (t) => {
  for (const args of [['--help'], ['serve', '--help'], ['feed', '--help']]) {
    const { code, out } = await runCommand(args)
    t.equal(code, 0)
    t.match(out, /Usage: tributary/)
  }
})
