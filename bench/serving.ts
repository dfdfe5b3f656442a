/**
 * Serving (docs/performance.md): requests a second and server CPU a request, each as a ratio to a bare Fastify route
 * that sends the same bytes, in the same run. The servers live in another process; CPU is theirs alone, so it does
 * not depend on how fast the load generator is.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import autocannon from 'autocannon'
import { TOKEN } from './serving-world.js'

const SECONDS = Number(process.argv[2] ?? 2)
const CONNECTIONS = 32

type Started = { urls: Record<string, string>; version: string; cursor: string }
type Usage = { cpu: NodeJS.CpuUsage }
type Load = { url: string; body: string; headers?: Record<string, string>; bodies?: string[] }
type Measured = { rps: number; cpuMicros: number }

const server = fork(fileURLToPath(new URL('./serving-world.js', import.meta.url)))
const [started] = (await once(server, 'message')) as [Started]
const { urls, version } = started

async function cpu(): Promise<number> {
  server.send('cpu')
  const [{ cpu: used }] = (await once(server, 'message')) as [Usage]
  return used.user + used.system
}

const HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  authorization: `Bearer ${TOKEN}`,
  'mcp-protocol-version': '2025-06-18',
}

async function measure({ url, body, headers, bodies }: Load): Promise<Measured> {
  const requests = bodies?.map((one) => ({ method: 'POST' as const, body: one }))
  const before = await cpu()
  const result = await autocannon({
    url,
    method: 'POST',
    body,
    headers: { ...HEADERS, ...headers },
    connections: CONNECTIONS,
    duration: SECONDS,
    ...(requests && { requests }),
  })
  const after = await cpu()
  if (result.non2xx > 0 || result.errors > 0)
    throw new Error(`${url}: ${result.non2xx} refused, ${result.errors} failed`)
  return { rps: result.requests.average, cpuMicros: (after - before) / result.requests.total }
}

const tool = (args: object) =>
  JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'get_signals', arguments: args },
  })
const skill = (input: object) =>
  JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'SendMessage',
    params: {
      message: { messageId: 'm', role: 'ROLE_USER', parts: [{ data: { skill: 'get_signals', input } }] },
    },
  })

const wholesale = { discovery_mode: 'wholesale', pagination: { max_results: 50 } }
const unchanged = { ...wholesale, if_wholesale_feed_version: version }
const A2A = { 'a2a-version': '1.0' }

/** The cursors of a walk, so that no request asks for the page before it. */
async function cursors(filters: object, pages: number): Promise<string[]> {
  const found: string[] = []
  let cursor: string | undefined
  while (found.length < pages) {
    const args = { ...wholesale, filters, pagination: { max_results: 50, ...(cursor && { cursor }) } }
    const reply = await fetch(`${urls.lean}/mcp`, { method: 'POST', headers: HEADERS, body: tool(args) })
    const { result } = (await reply.json()) as {
      result: { structuredContent: { pagination: { cursor?: string } } }
    }
    cursor = result.structuredContent.pagination.cursor
    found.push(tool(args))
    if (!cursor) break
  }
  return found
}

/** Gives the bare route the very bytes that ours answers with. */
async function teach(name: string, body: string): Promise<void> {
  const reply = await fetch(`${urls.lean}/mcp`, { method: 'POST', headers: HEADERS, body })
  const bytes = await reply.arrayBuffer()
  const headers = { 'content-type': 'application/octet-stream' }
  await fetch(`${urls.bare}/bytes/${name}`, { method: 'PUT', headers, body: bytes })
}

await teach('unchanged', tool(unchanged))
await teach('page', tool(wholesale))
const scattered = await cursors({ catalog_types: ['marketplace'], data_providers: ['p3.example'] }, 50)
const walk = await cursors({}, 300)

const LOADS: [string, 'unchanged' | 'page', Load][] = [
  ['unchanged, MCP', 'unchanged', { url: `${urls.lean}/mcp`, body: tool(unchanged) }],
  ['unchanged, MCP, metrics and limits', 'unchanged', { url: `${urls.full}/mcp`, body: tool(unchanged) }],
  ['unchanged, A2A', 'unchanged', { url: `${urls.lean}/a2a`, body: skill(unchanged), headers: A2A }],
  ['page of 50, MCP', 'page', { url: `${urls.lean}/mcp`, body: tool(wholesale) }],
  ['page of 50, MCP, metrics and limits', 'page', { url: `${urls.full}/mcp`, body: tool(wholesale) }],
  ['page of 50, A2A', 'page', { url: `${urls.lean}/a2a`, body: skill(wholesale), headers: A2A }],
  [
    'page of 50, MCP, gzip',
    'page',
    { url: `${urls.lean}/mcp`, body: tool(wholesale), headers: { 'accept-encoding': 'gzip' } },
  ],
  ['page of 50, walking', 'page', { url: `${urls.lean}/mcp`, body: '', bodies: walk }],
  ['page of 50, scattered by a filter', 'page', { url: `${urls.lean}/mcp`, body: '', bodies: scattered }],
  [
    'page of 50, older client (JSON in text)',
    'page',
    { url: `${urls.lean}/mcp`, body: tool(wholesale), headers: { 'mcp-protocol-version': '2025-03-26' } },
  ],
  // Last: what it leaves to the garbage collector would be paid by whoever is measured next.
  ['unchanged, official McpServer', 'unchanged', { url: `${urls.official}/mcp`, body: tool(unchanged) }],
  ['page of 50, official McpServer', 'page', { url: `${urls.official}/mcp`, body: tool(wholesale) }],
]

for (const name of ['unchanged', 'page'] as const)
  await measure({ url: `${urls.bare}/bare/${name}`, body: tool(wholesale) })
console.log(
  `${'what'.padEnd(42)}${'rps'.padStart(8)}${'us CPU'.padStart(9)}${'rps ratio'.padStart(11)}${'CPU ratio'.padStart(11)}`,
)
for (const [what, kind, load] of LOADS) {
  await measure({ ...load }) // warm
  const bare = await measure({
    url: `${urls.bare}/bare/${kind}`,
    body: load.body || tool(wholesale),
    ...(load.headers && { headers: load.headers }),
  })
  const ours = await measure(load)
  const ratio = (value: number) => value.toFixed(2).padStart(11)
  console.log(
    `${what.padEnd(42)}${ours.rps.toFixed(0).padStart(8)}${ours.cpuMicros.toFixed(1).padStart(9)}${ratio(ours.rps / bare.rps)}${ratio(bare.cpuMicros / ours.cpuMicros)}`,
  )
}
server.kill()
