/** Every example of docs/clients.md, as it stands there, against a running Tributary. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { type Test, test } from 'tap'
import { startWorld } from '../support/federation.js'

const run = promisify(execFile)
const DEMO = 'http://127.0.0.1:8080'
type Example = { heading: string; language: string; code: string }

async function examples(): Promise<Example[]> {
  const page = await readFile('docs/clients.md', 'utf8')
  return page.split(/^## /m).flatMap((section) => {
    const heading = section.slice(0, section.indexOf('\n'))
    return [...section.matchAll(/^```(\w+)\n(.*?)^```/gms)].map(([, language = '', code = '']) => ({
      ...{ heading, language, code },
    }))
  })
}

/** The folder whose packages an example means: the older A2A SDK and the protocol's belong to the conformance run. */
const homeOf = ({ heading }: Example) => (/A2A SDK 0\.3|protocol/.test(heading) ? 'conformance' : '.')

async function runScript(t: Test, example: Example, url: string): Promise<string> {
  const folder = await mkdtemp(join(resolve(homeOf(example)), 'node_modules', '.example-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'example.mjs')
  await writeFile(file, example.code.replaceAll(DEMO, url))
  return (await run(process.execPath, [file])).stdout
}

type Host = { url: string; headers: Record<string, string> }

/** What a host finds there: the names of the tools, over the official client. */
async function toolsAt({ url, headers }: Host): Promise<string[]> {
  const client = new Client({ name: 'host', version: '1' })
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }))
  const { tools } = await client.listTools()
  await client.close()
  return tools.map(({ name }) => name)
}

test('every example of the page about clients does what it says', async (t) => {
  const world = await startWorld({ signals: 240 })
  t.teardown(() => world.close())
  const { federation } = world
  const all = await examples()
  t.same(
    all.map(({ language }) => language),
    ['sh', 'sh', 'js', 'js', 'js', 'js', 'json', 'json'],
  )
  await Promise.all(
    all.map(async (example) => {
      const { heading, language, code } = example
      const here = code.replaceAll(DEMO, federation.url)
      if (language === 'sh') {
        const { stdout } = await run('bash', ['-c', here])
        t.match(stdout, /"status":"completed".*"signal_agent_segment_id"/s, heading)
      } else if (language === 'json') {
        const [[, servers] = []] = Object.entries(JSON.parse(here) as Record<string, Record<string, Host>>)
        const names = await toolsAt(servers?.tributary as Host)
        t.ok(names.includes('get_signals'), heading)
      } else if (existsSync(join(homeOf(example), 'node_modules'))) {
        t.match(await runScript(t, example, federation.url), /^completed \d+\n$/m, heading)
      } else {
        t.pass(`${heading}: its packages are not installed (npm ci --prefix conformance)`, { skip: true })
      }
    }),
  )
})
