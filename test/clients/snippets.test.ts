/** Every example of docs/clients.md, as it stands there, against a running Tributary; two more in snippets.slow.test.ts. */
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { test } from 'tap'
import { type Example, examples, isOfConformance, startDemo } from './support/examples.js'

type Server = { type: string; url: string; headers: Record<string, string> }

/** Which member of its file a host reads, by the file's name (the hosts' own documentation). */
const SERVERS_IN: Readonly<Record<string, string>> = {
  '.mcp.json': 'mcpServers',
  '.vscode/mcp.json': 'servers',
}

/** The servers that a host finds in its file: of other members it knows nothing, nor of other ways to a server. */
function serversOf({ file = '', code }: Example): Server[] {
  const read = JSON.parse(code) as Record<string, Record<string, Server>>
  return Object.values(read[SERVERS_IN[file] ?? ''] ?? {}).filter(({ type }) => type === 'http')
}

/** What a host finds at a server over the official client: the names of the tools. */
async function toolsAt({ url, headers }: Server): Promise<string[]> {
  const client = new Client({ name: 'host', version: '1' })
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }))
  const { tools } = await client.listTools()
  await client.close()
  return tools.map(({ name }) => name)
}

test('every example of the page about clients does what it says', async (t) => {
  const demo = await startDemo(t)
  const all = await examples()
  t.same(
    all.map(({ language, file }) => file ?? language),
    ['sh', 'sh', 'js', 'js', 'js', 'js', '.mcp.json', '.vscode/mcp.json'],
  )
  t.equal(all.filter(isOfConformance).length, 2)
  const isHere = (example: Example) => !isOfConformance(example)
  await Promise.all(
    all.filter(isHere).map(async (example) => {
      const { heading, language, code } = example
      if (language === 'sh') {
        t.match(await demo.shell(code), /"status":"completed".*"signal_agent_segment_id"/s, heading)
      } else if (language === 'js') {
        t.match(await demo.script(code, '.'), /^completed [1-9]\d*\n$/, heading)
      } else {
        const servers = serversOf({ ...example, code: demo.here(code) })
        t.equal(servers.length, 1, `${example.file}: one server`)
        for (const server of servers) t.ok((await toolsAt(server)).includes('get_signals'), server.url)
      }
    }),
  )
})
