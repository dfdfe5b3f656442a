/**
 * The other side of the brief benchmark: many agents in one child process, each of which takes its time or hangs. Prints
 * their urls as one line of JSON.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { briefListing, FEED_SIGNALS } from './discovery-agents-rows.js'

const ROWS = 20
const [agents = '1', hung = '0', slowestMs = '400'] = process.argv.slice(2)
const CAPABILITIES = {
  status: 'completed',
  adcp: { major_versions: [3], supported_versions: ['3.1'] },
  signals: { discovery_modes: ['brief'] },
}
const INITIALIZED = {
  protocolVersion: '2025-06-18',
  capabilities: { tools: {} },
  serverInfo: { name: 'bench', version: '1' },
}

function rowsOf(agent: number): unknown[] {
  const from = (agent * 37) % (FEED_SIGNALS - ROWS)
  return Array.from({ length: ROWS }, (_, at) => briefListing(from + at))
}

const urls = await Promise.all(
  Array.from({ length: Number(agents) }, async (_, agent) => {
    const signals = rowsOf(agent)
    const server = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        if (request.method !== 'POST') return void response.writeHead(405).end()
        const { id, method, params } = JSON.parse(Buffer.concat(chunks).toString())
        const reply = (result: object) => {
          response.writeHead(200, { 'content-type': 'application/json' })
          response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
        }
        if (id === undefined) return void response.writeHead(202).end()
        if (method !== 'tools/call') return reply(INITIALIZED)
        if (params.name !== 'get_signals') return reply({ content: [], structuredContent: CAPABILITIES })
        if (agent < Number(hung)) return
        const answer = { content: [], structuredContent: { status: 'completed', signals } }
        setTimeout(() => reply(answer), 10 + ((agent * 97) % Number(slowestMs)))
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
  }),
)
process.stdout.write(`${JSON.stringify(urls)}\n`)
