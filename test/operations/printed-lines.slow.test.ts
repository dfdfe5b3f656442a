/** Every line for a shell that the README and the pages print is run as it is printed, or has its reason why not. */
import { spawn } from 'node:child_process'
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Test, test } from 'tap'
import { callTool } from '../support/call-tool.js'
import { startCommand } from '../support/command.js'
import type { Answer } from '../support/federation.js'

const MAIN = fileURLToPath(new URL('../../src/main.js', import.meta.url))

const NORTHWIND = 'https://signals.northwind.example/mcp'

/** Blocks that another test runs word by word: which page, and the test, which names the page. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  'docs/operations.md': 'test/operations/operations-guide.slow.test.ts',
  'docs/clients.md': 'test/clients/snippets.test.ts',
}

/** What cannot be run inside a test: it begins with one of these. */
const NOT_HERE: Readonly<Record<string, string>> = {
  'npm ci && npm start': 'installs; its server is started from config/sandbox.yaml below',
  'npm ci && npm test': 'this run',
  'npm run build && npm run conformance': 'a step of its own in CI',
  'useradd --system': 'changes the machine; the unit and the example are held against the server elsewhere',
  'docker build': 'needs Docker; the image is built from the same package',
  'tributary mirror --url https://signals.example.com --out ./copy --listen':
    'goes on until it is stopped: test/mirror/listening.test.ts',
}

type Block = { page: string; kind: string; text: string }

async function blocks(): Promise<Block[]> {
  const docs = (await readdir('docs', { recursive: true })).filter((name) => name.endsWith('.md'))
  const pages = ['README.md', ...docs.map((name) => `docs/${name}`)]
  const found = await Promise.all(
    pages.map(async (page) => {
      const text = await readFile(page, 'utf8')
      return [...text.matchAll(/^```(sh|bash|shell|console)\n([\s\S]*?)^```$/gm)].map(
        ([, kind = '', block = '']) => ({ page, kind, text: block.trim() }),
      )
    }),
  )
  return found.flat()
}

async function folderOf(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tributary-printed-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

type Ended = { code: number | null; out: string; err: string }

function shell(script: string, cwd: string, environment: Record<string, string>): Promise<Ended> {
  const env = { ...process.env, ...environment }
  delete env.NODE_OPTIONS // hooks of the test runner
  const child = spawn('bash', ['-c', `set -eo pipefail\n${script}`], { cwd, env })
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    err += text
  })
  return new Promise((ended) => child.on('close', (code) => ended({ code, out, err })))
}

const isNotHere = ({ text }: Block) => Object.keys(NOT_HERE).some((begin) => text.startsWith(begin))
const isProduction = ({ text }: Block) => text.includes('config/production.example.yaml')

test('each is run by a test, or says why not', async (t) => {
  const all = await blocks()
  t.ok(all.length > 15, 'there are some')
  for (const [page, file] of Object.entries(ELSEWHERE)) {
    t.ok((await readFile(file, 'utf8')).includes(page), `${file} reads ${page}`)
  }
  for (const begin of Object.keys(NOT_HERE)) {
    t.ok(
      all.some(({ text }) => text.startsWith(begin)),
      `${begin} is printed somewhere still`,
    )
  }
  for (const block of all.filter(({ kind, page }) => kind === 'console' && page in ELSEWHERE)) {
    t.ok(isNotHere(block), `${block.page}: ${block.text.split('\n')[0]} is run by nobody`)
  }
})

test('what asks a server is answered by the demo', async (t) => {
  const folder = await folderOf(t)
  const shipped = await readFile('config/sandbox.yaml', 'utf8')
  const config = join(folder, 'config.yaml')
  const own = shipped
    .replace('port: 8080', 'port: 0')
    .replace('file:./data/sandbox', `file:${folder}/data`)
    .replace(
      'role: buyer',
      `role: buyer\n      accounts: { acc_demo: { "${NORTHWIND}": { account_id: nw_77 } } }`,
    )
  await writeFile(config, own)
  const server = startCommand(
    ['serve', '--config', config, '--sandbox-signals', '240'],
    {},
    { longestMs: 600_000 },
  )
  t.teardown(() => server.process.kill('SIGKILL'))
  const [, url = ''] = await server.printed(/signals in one feed at (http:\S+)\/mcp/)
  const asked = { discovery_mode: 'wholesale', pagination: { max_results: 1 } }
  const { signals = [] } = await callTool<Answer>(url, 'get_signals', asked, 'demo-buyer-key')
  const placeholders: [from: string, to: string][] = [
    ['http://127.0.0.1:8080', url],
    ['https://signals.example.com', url],
    ['https://HOST', url],
    ['REF', signals[0]?.signal_agent_segment_id ?? ''],
    ['acme-buyer', 'demo-buyer'],
    ['acme-eu', 'acc_demo'],
    ['postgres://user@host/database', './copy-in-a-database'],
  ]
  const named = (text: string) => placeholders.reduce((read, [from, to]) => read.replaceAll(from, to), text)

  const pages = new Map<string, string[]>()
  for (const block of await blocks()) {
    if (block.page in ELSEWHERE || isNotHere(block) || isProduction(block)) continue
    pages.set(block.page, [...(pages.get(block.page) ?? []), block.text])
  }
  for (const [page, texts] of pages) {
    const more = page === 'docs/mirror.md' ? '--once --token demo-buyer-key' : `--url ${url}`
    const command = `tributary() { '${process.execPath}' '${MAIN}' "$@" ${more}; }`
    const environment = {
      KEY: 'demo-operator-key',
      ...(page === 'docs/explain.md' && { TRIBUTARY_TOKEN: 'demo-operator-key' }),
    }
    // One shell a page: what a block defines the next ones use.
    const ended = await shell([command, ...texts.map(named)].join('\n'), folder, environment)
    t.equal(ended.code, 0, `${page}: ${ended.err}`)
    t.notMatch(ended.out, /"error":\{"code":-32/, `${page} is understood`)
    t.not(ended.out.trim(), '', page)
  }
})

test('the production example starts, once edited', async (t) => {
  const block = (await blocks()).find((one) => one.page === 'README.md' && isProduction(one))
  const [copy = '', serve = ''] = block?.text.split('\n') ?? []
  const folder = await folderOf(t)
  for (const name of ['dist', 'node_modules', 'package.json'])
    await symlink(resolve(name), join(folder, name))
  await cp('config', join(folder, 'config'), { recursive: true })
  t.equal((await shell(copy, folder, {})).code, 0, copy)

  const probe = createServer().listen(0, '127.0.0.1')
  await new Promise((listening) => probe.once('listening', listening))
  const { port } = probe.address() as AddressInfo
  await new Promise((closed) => probe.close(closed))
  const file = join(folder, 'tributary.yaml')
  const text = await readFile(file, 'utf8')
  const edited = text
    .replace('host: 0.0.0.0', 'host: 127.0.0.1')
    .replace('port: 8080', `port: ${port}`)
    .replace('file:/var/lib/tributary', `file:${folder}/data`)
  await writeFile(file, edited)
  const names = [...new Set([...text.matchAll(/\$\{(\w+)\}/g)].map(([, name = '']) => name))]
  const environment = Object.fromEntries(
    names.map((name, at) => [name, name.endsWith('SHA256') ? String(at).padStart(64, '0') : `value-${at}`]),
  )
  const ended = shell(`${serve} &\necho $! > pid\nwait $!`, folder, environment)
  const isAlive = () =>
    fetch(`http://127.0.0.1:${port}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    )
  let alive = false
  for (const end = Date.now() + 60_000; !alive && Date.now() < end; await wait(50)) alive = await isAlive()
  t.ok(alive, serve)
  process.kill(Number(await readFile(join(folder, 'pid'), 'utf8')), 'SIGTERM')
  await ended
})
