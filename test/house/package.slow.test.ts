import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { test } from 'tap'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../../..')
const run = promisify(execFile)

const PRODUCTION = `
listen: { host: 127.0.0.1, port: 0 }
callers: { anonymous: metadata, keys: [ { id: someone, token_sha256: "${'a'.repeat(64)}" } ] }
storage: { url: "file:./data" }
`

/** Resolves with the address that the server names when it is ready; reads on, so that its pipe stays open. */
function addressOf(stream: NodeJS.ReadableStream): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    stream.on('data', (chunk) => {
      text += chunk
      const url = /(http:\/\/127\.0\.0\.1:\d+)\/mcp\b/.exec(text)?.[1]
      if (url) resolve(url)
    })
    stream.on('end', () => reject(new Error(`the server ended without an address: ${text}`)))
  })
}

/** What somebody writes who embeds a mirror, checked with every declaration that it leads to. */
const IMPORTER = `
import { type FeedMirrorOptions, openFeedMirror } from '@tributary-adcp/tributary/mirror'
const options: FeedMirrorOptions = { url: 'https://signals.example.com', out: './copy', format: 'sqlite' }
const mirror = await openFeedMirror({
  ...options,
  listen: { url: 'https://mirror.example.com/told', port: 8090 },
  onReading: (reading) => console.log(reading.kind === 'failed' ? reading.reason : reading.state.rows),
})
const port: number | undefined = mirror.port
await mirror.follow().finally(mirror.close)
// @ts-expect-error a place to keep the copy is required
await openFeedMirror({ url: 'https://signals.example.com', listen: { url: '', port } })
`

async function pack(folder: string): Promise<{ filename: string; paths: string[] }> {
  await run('npm', ['run', 'types'], { cwd: root })
  const to = ['--json', '--ignore-scripts', '--pack-destination', folder]
  const { stdout } = await run('npm', ['pack', ...to], { cwd: root })
  const [packed] = JSON.parse(stdout) as { filename: string; files: { path: string }[] }[]
  return { filename: packed?.filename ?? '', paths: (packed?.files ?? []).map(({ path }) => path) }
}

test('whoever embeds a mirror is told its types, by declarations that lead to no other package', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-types-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const { filename } = await pack(folder)
  const into = join(folder, 'node_modules/@tributary-adcp/tributary')
  await mkdir(into, { recursive: true })
  await run('tar', ['xzf', join(folder, filename), '-C', into, '--strip-components=1'])
  await writeFile(join(folder, 'importer.mts'), IMPORTER)
  const types = ['--typeRoots', join(root, 'node_modules/@types'), '--types', 'node']
  const strict = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2023', ...types]
  const checked = await run(join(root, 'node_modules/.bin/tsc'), [...strict, 'importer.mts'], {
    cwd: folder,
  }).catch((error: { stdout: string }) => error)
  t.equal(checked.stdout, '')
})

test('the published package serves a production configuration and holds no demo world', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-package-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const { filename, paths } = await pack(folder)
  t.ok(paths.includes('dist/program/main.js'))
  t.ok(paths.includes('dist/program/licenses.txt'), 'of the packages whose code is in the program')
  t.same(
    paths.filter((path) => /^(sandbox|test|bench|dist\/(sandbox|test|bench))\b/.test(path)),
    [],
    'neither demo world nor tests',
  )

  await writeFile(join(folder, 'package.json'), '{"private":true}')
  const install = ['install', '--no-audit', '--no-fund', '--prefer-offline', join(folder, filename)]
  await run('npm', install, { cwd: folder })
  const manifest = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as {
    name: string
    version: string
  }
  const main = join(folder, 'node_modules', manifest.name, 'dist/program/main.js')
  const version = await run(process.execPath, [main, '--version'])
  t.equal(version.stdout.trim(), manifest.version)

  const embedding = `import { openFeedMirror } from '${manifest.name}/mirror'
    const mirror = await openFeedMirror({ url: 'http://127.0.0.1:9/mcp', out: './copy.db', format: 'sqlite' })
    console.log((await mirror.read()).kind)
    await mirror.close()`
  await writeFile(join(folder, 'embedding.mjs'), embedding)
  const embedded = await run(process.execPath, ['embedding.mjs'], { cwd: folder })
  t.equal(embedded.stdout, 'failed\n', 'a mirror runs in a program of others, and says when nobody answers')

  await t.rejects(
    run(process.execPath, [main, 'serve'], { cwd: folder }),
    /holds no demo world/,
    'without a configuration it says what is missing',
  )

  await writeFile(join(folder, 'tributary.yaml'), PRODUCTION)
  const server = spawn(process.execPath, [main, 'serve', '--config', 'tributary.yaml'], {
    cwd: folder,
    env: { ...process.env, NODE_ENV: 'production' },
  })
  t.teardown(async () => {
    if (server.exitCode === null) {
      server.kill('SIGTERM')
      await once(server, 'exit')
    }
  })
  const url = await addressOf(server.stdout)
  const health = await fetch(`${url}/healthz`)
  t.equal(health.status, 200)

  const walked = await run(process.execPath, [main, 'feed', '--url', url])
  t.match(walked.stdout, /^0 signals, version/m, 'who names no key is anonymous: no key of a demo is sent')

  const asked = async (path: string, method: string, params: object) => {
    const headers = {
      ...{ 'content-type': 'application/json', 'a2a-version': '1.0' },
      accept: 'application/json, text/event-stream',
    }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
    return (await fetch(`${url}${path}`, { method: 'POST', headers, body })).text()
  }
  const rare = 'packages that are loaded with the first rare question are installed'
  t.match(await asked('/mcp', 'tools/list', {}), /"get_signals"/, rare)
  t.match(await asked('/a2a', 'GetTask', { id: 'none' }), /Task not found/, rare)
})
