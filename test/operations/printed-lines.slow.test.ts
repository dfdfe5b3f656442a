/** Every line for a shell that the README and the pages print is run as it is printed, or has its reason why not. */
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { test } from 'tap'
import { bare } from '../store/support/storages.js'
import { callTool } from '../support/call-tool.js'
import { startCommand } from '../support/command.js'
import { demoConfig } from '../support/demo-config.js'
import type { Answer } from '../support/federation.js'
import { MAIN } from '../support/program.js'
import { reservedPort } from '../support/reserved-port.js'
import { temporaryFolder } from '../support/temporary-folder.js'
import { type Block, comesAlive, curlFinds, editedExample, printedBlocks, shell } from './support/printed.js'

const NORTHWIND = 'https://signals.northwind.example/mcp'

/** Pages whose blocks for a shell another test runs word by word, and that test, which names the page. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  'docs/operations.md': 'test/operations/operations-guide.slow.test.ts',
  'docs/clients.md': 'test/clients/snippets.test.ts',
}

/** Blocks that begin with one of these are run by a file that says so, in these words. */
const BY_FILE: Readonly<Record<string, [file: string, words: string]>> = {
  'npm ci && npm start': ['.ci/start', '"$(block 1)"'],
  'npm ci && npm test': ['.ci/run', "'npm ci && npm test'"],
  'npm run build && npm run conformance': ['.ci/run', "'npm run --silent conformance'"],
  'useradd --system': ['test/operations/installed.slow.test.ts', "'useradd"],
  'docker build': ['test/operations/installed.slow.test.ts', "'Dockerfile'"],
}

/** What goes on until it is told to end. */
const GOES_ON = 'docs/mirror.md'

const isElsewhere = ({ page, text }: Block) =>
  page in ELSEWHERE || Object.keys(BY_FILE).some((begin) => text.startsWith(begin))
const isProduction = ({ text }: Block) => text.includes('config/production.example.yaml')

test('each is run by a test, or says why not', async (t) => {
  const all = await printedBlocks()
  t.ok(all.length > 15, 'there are some')
  for (const [page, file] of Object.entries(ELSEWHERE)) {
    t.ok((await readFile(file, 'utf8')).includes(page), `${file} reads ${page}`)
  }
  for (const [begin, [file, words]] of Object.entries(BY_FILE)) {
    t.ok(
      all.some(({ text }) => text.startsWith(begin)),
      `${begin} is printed somewhere still`,
    )
    t.ok((await readFile(file, 'utf8')).includes(words), `${file} runs ${begin}`)
  }
  const [first, second] = all.filter(({ page }) => page === 'README.md')
  t.match([first?.text, second?.text], [/^npm ci && npm start$/, /^curl /], 'what .ci/start reads')
  for (const block of all.filter(({ kind, page }) => kind === 'console' && page in ELSEWHERE)) {
    const begin = Object.keys(BY_FILE).find((one) => block.text.startsWith(one))
    t.ok(begin, `${block.page}: ${block.text.split('\n')[0]} is run by nobody`)
  }
})

test('what asks a server is answered by the demo', async (t) => {
  const port = await reservedPort()
  const named = (text: string) =>
    text.replace('id: demo-buyer', 'id: acme-buyer').replace(
      'role: buyer',
      `role: buyer
      accounts: { acme-eu: { "${NORTHWIND}": { account_id: nw_77 } } }`,
    )
  const { folder, file: config } = await demoConfig(t, named, port)
  const server = startCommand(
    ['serve', '--config', config, '--sandbox-signals', '240'],
    {},
    { longestMs: 600_000 },
  )
  t.teardown(() => server.process.kill('SIGKILL'))
  const [, url = ''] = await server.printed(/signals in one feed at (http:\S+)\/mcp/)
  const asked = { discovery_mode: 'wholesale', pagination: { max_results: 1 } }
  const { signals = [] } = await callTool<Answer>(url, 'get_signals', asked, 'demo-buyer-key')

  // The program under its name, as npm puts it into the path.
  const bin = join(folder, 'bin')
  await mkdir(bin)
  await writeFile(join(bin, 'tributary'), `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`, {
    mode: 0o755,
  })
  const postgres = await bare(t)
  if (!postgres) t.comment('no PostgreSQL here: DATABASE_URL is a folder')
  const environment = {
    ...(await curlFinds(folder, port)),
    PATH: `${bin}:${process.env.PATH}`,
    KEY: 'demo-operator-key',
    REF: signals[0]?.signal_agent_segment_id ?? '',
    TRIBUTARY_URL: url,
    AGENT_URL: url,
    DATABASE_URL: postgres?.url ?? './copy-in-a-database',
    PUBLIC_URL: 'https://mirror.acme.example/told',
    PORT: '0',
  }

  const pages = new Map<string, string[]>()
  for (const block of await printedBlocks()) {
    if (isElsewhere(block) || isProduction(block)) continue
    pages.set(block.page, [...(pages.get(block.page) ?? []), block.text])
  }
  for (const [page, texts] of pages) {
    if (page === GOES_ON) continue
    const token = page === 'docs/explain.md' ? 'demo-operator-key' : 'demo-buyer-key'
    // One shell a page: what a block defines the next ones use.
    const ended = await shell(texts.join('\n'), folder, { ...environment, TRIBUTARY_TOKEN: token })
    t.equal(ended.code, 0, `${page}: ${ended.err}`)
    t.notMatch(ended.out, /"error":\{"code":-32/, `${page} is understood`)
    t.not(ended.out.trim(), '', page)
  }
  const lines = (pages.get(GOES_ON) ?? []).flatMap((text) => text.split('\n'))
  t.equal(lines.length, 4, GOES_ON)
  for (const line of lines) {
    let isInterrupted = false
    const ended = await shell(
      line,
      folder,
      { ...environment, TRIBUTARY_TOKEN: 'demo-buyer-key' },
      (printed, interrupt) => {
        if (isInterrupted || !/^(replaced|unchanged): [\d,]+ signals/m.test(printed)) return
        isInterrupted = true
        interrupt()
      },
    )
    t.equal(ended.code, 0, `${line}: ${ended.err}`)
    t.ok(isInterrupted, `${line}: ${ended.out}`)
  }
})

test('the production example starts, once edited', async (t) => {
  const block = (await printedBlocks()).find((one) => one.page === 'README.md' && isProduction(one))
  const [copy = '', serve = ''] = block?.text.split('\n') ?? []
  const folder = await temporaryFolder(t)
  for (const name of ['dist', 'node_modules', 'package.json'])
    await symlink(resolve(name), join(folder, name))
  await cp('config', join(folder, 'config'), { recursive: true })
  t.equal((await shell(copy, folder, {})).code, 0, copy)

  const port = await reservedPort()
  const file = join(folder, 'tributary.yaml')
  const { config, environment } = editedExample(await readFile(file, 'utf8'), port, `${folder}/data`)
  await writeFile(file, config)
  const ended = shell(`${serve} &\necho $! > pid\nwait $!`, folder, environment)
  t.ok(await comesAlive(port), serve)
  process.kill(Number(await readFile(join(folder, 'pid'), 'utf8')), 'SIGTERM')
  await ended
})
