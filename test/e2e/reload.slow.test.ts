import { execFileSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { mkdtemp, open, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'tap'
import { startCommand } from '../support/command.js'
import { until } from '../support/until.js'

const sha256 = (text: string) => hash('sha256', text, 'hex')

test('a changed configuration file is applied while serving, a bad one is not', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-reload-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'config.json')
  const settings = {
    listen: { port: 0 },
    registries: [{ url: 'https://registry.signalcommons.example' }],
    callers: { keys: [{ id: 'first', token_sha256: sha256('first-key') }] },
    storage: { url: `file:${folder}/data` },
    sandbox: true,
  }
  /** At once, so that no half of it can be read however slowly it is written. */
  async function write(text: string): Promise<void> {
    await writeFile(`${file}.new`, text)
    await rename(`${file}.new`, file)
  }
  await write(JSON.stringify(settings))
  const server = startCommand(['serve', '--config', file, '--sandbox-signals', '24'])
  t.teardown(() => server.process.kill('SIGKILL'))
  const [, url] = await server.printed(/in one feed at (http:\S+)\/mcp\. A page/)

  async function ask(token: string): Promise<{ status: number; total?: number; version?: string }> {
    const response = await fetch(`${url}/mcp`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        authorization: `Bearer ${token}`,
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'get_signals', arguments: { discovery_mode: 'wholesale' } },
      }),
    })
    const { result } = (await response.json()) as {
      result?: { structuredContent: { pagination: { total_count: number }; wholesale_feed_version: string } }
    }
    const { pagination, wholesale_feed_version } = result?.structuredContent ?? {}
    return {
      status: response.status,
      ...(pagination && { total: pagination.total_count }),
      ...(wholesale_feed_version && { version: wholesale_feed_version }),
    }
  }
  type Ready = {
    status: string
    configuration: { revision: string; file_revision?: string; problem?: string }
  }
  const ready = async () => (await (await fetch(`${url}/readyz`)).json()) as Ready
  async function rejected(): Promise<string | undefined> {
    const shown = await fetch(`${url}/metrics`, { headers: { authorization: 'Bearer second-key' } })
    return /^tributary_config_rejected (.*)$/m.exec(await shown.text())?.[1]
  }
  async function shownRevisions() {
    const shown = await fetch(`${url}/metrics`, { headers: { authorization: 'Bearer second-key' } })
    const text = await shown.text()
    const [, force] = /^tributary_config_info\{revision="(\w+)"\} 1$/m.exec(text) ?? []
    const [, disk] = /^tributary_config_file_info\{revision="(\w+)"\} 1$/m.exec(text) ?? []
    return { force, disk }
  }

  const before = await ask('first-key')
  t.equal(before.status, 200)
  t.equal((await ask('second-key')).status, 401)
  const { revision } = (await ready()).configuration

  const changed = {
    ...settings,
    authorization: { providers: { 'quietfield.example': { policy: 'lenient' } } },
    callers: { keys: [{ id: 'second', token_sha256: sha256('second-key'), role: 'operator' }] },
  }
  await write(JSON.stringify(changed))
  server.process.kill('SIGHUP')
  await until(ready, ({ configuration }) => configuration.revision !== revision)
  t.equal((await ask('first-key')).status, 401, 'a removed key opens nothing')
  const after = await until(
    () => ask('second-key'),
    ({ total = 0 }) => total > (before.total ?? 0),
  )
  t.ok(
    (after.total ?? 0) > (before.total ?? 0),
    'the new policy lets unverifiable signals of one provider in',
  )

  const applied = (await ready()).configuration.revision
  await write('{ "registries": [ { "url": "nowhere" } ] }')
  const troubled = await until(ready, ({ configuration }) => configuration.problem !== undefined)
  t.match(troubled.configuration.problem, /registries\[0\]\.url: expected an http or https url/)
  t.equal(
    troubled.configuration.revision,
    applied,
    'the file was looked at without a signal, and not applied',
  )
  t.equal((await ask('second-key')).status, 200)
  t.equal(await rejected(), '1')
  const { revision: inForce, file_revision: onDisk } = troubled.configuration
  t.same(await shownRevisions(), { force: inForce, disk: onDisk })
  t.not(inForce, onDisk, 'the file is another than the configuration that runs')

  await write(JSON.stringify(changed))
  const mended = await until(ready, ({ configuration }) => configuration.problem === undefined)
  t.same(mended.configuration, { revision: applied, file_revision: applied })
  t.equal(await rejected(), '0')
  t.same(await shownRevisions(), { force: applied, disk: applied })
})

test('a reload that is asked for while the file is read for the first time is made after the start', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-reload-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'config.json')
  const written = (policy: string) =>
    JSON.stringify({
      ...{ listen: { port: 0 }, authorization: { policy } },
      storage: { url: `file:${folder}/data` },
    })
  await writeFile(`${file}.new`, written('observe'))
  execFileSync('mkfifo', [file])
  const server = startCommand(['serve', '--config', file])
  t.teardown(() => server.process.kill('SIGKILL'))
  const pipe = await open(file, 'w') // the server reads it now
  await rename(`${file}.new`, file)
  server.process.kill('SIGHUP')
  await pipe.writeFile(written('strict'))
  await pipe.close()
  const [, url] = await server.printed(/in one feed at (http:\S+)\/mcp\. A page/)
  const revision = sha256(written('observe')).slice(0, 12)
  const ready = async () => (await fetch(`${url}/readyz`)).json() as Promise<{ configuration: object }>
  await until(
    ready,
    ({ configuration }) => 'revision' in configuration && configuration.revision === revision,
  )
})
