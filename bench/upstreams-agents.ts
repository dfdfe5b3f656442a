/**
 * The other side of the upstreams benchmark: many wholesale agents in one child process, their rows made on demand so
 * that a million of them need no memory. Prints its urls as one line of JSON. `POST /change` at an agent changes one price
 * and its version, `POST /change?every=100` that of every hundredth row; `GET /walked` says when its last walk began and when the last page of it was sent.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const [agents = '1', rowsEach = '1000'] = process.argv.slice(2)
const ROWS = Number(rowsEach)
const DESCRIPTION =
  'Shoppers who compared models, configured a vehicle or visited a dealership in the last ninety days, modelled from consented first-party observations and refreshed weekly. '.repeat(
    3,
  )

const TOOLS = JSON.stringify({
  tools: ['get_adcp_capabilities', 'get_signals'].map((name) => ({ name, inputSchema: { type: 'object' } })),
})

/** By agent: how often its prices changed and which the last time, and its last walk, ms since the epoch. */
const changes = new Map<number, { times: number; every: number }>()
const walks = new Map<number, { beganAt: number; endedAt: number }>()
const versionOf = (agent: number) => `v${1 + (changes.get(agent)?.times ?? 0)}`

function row(agent: number, at: number): string {
  const { times = 0, every = ROWS } = changes.get(agent) ?? {}
  const price = at % every === 7 % every ? 100 + times : 1 + (at % 9)
  const id = `signal_${agent}_${at}`
  return `{"signal_ref":{"scope":"data_provider","data_provider_domain":"provider${at % 50}.example","signal_id":"${id}"},"signal_agent_segment_id":"seg_${id}","name":"Auto intenders ${at}","description":"${DESCRIPTION}","value_type":"binary","signal_type":"marketplace","data_provider":"Provider ${at % 50}","coverage_percentage":${at % 100},"deployments":[{"type":"platform","platform":"the-trade-desk","is_live":false,"estimated_activation_duration_minutes":60},{"type":"agent","agent_url":"https://sales.example/mcp","is_live":true}],"pricing_options":[{"pricing_option_id":"po_cpm","model":"cpm","cpm":${price},"currency":"USD"}]}`
}

function page(agent: number, from: number, size: number): string {
  const to = Math.min(from + size, ROWS)
  const rows = Array.from({ length: to - from }, (_, at) => row(agent, from + at))
  const now = Date.now()
  walks.set(agent, { beganAt: from === 0 ? now : (walks.get(agent)?.beganAt ?? now), endedAt: now })
  const more = to < ROWS ? `"has_more":true,"cursor":"${to}"` : '"has_more":false'
  return `"signals":[${rows.join(',')}],"pagination":{${more}},`
}

function answer(agent: number, call: { name: string; arguments?: Record<string, unknown> }): string {
  if (call.name === 'get_adcp_capabilities') {
    return '"adcp":{"major_versions":[3],"supported_versions":["3.0","3.1"]},"supported_protocols":["signals"],"signals":{"discovery_modes":["wholesale"]}'
  }
  const { pagination, if_wholesale_feed_version: token } = call.arguments ?? {}
  const { cursor = '0', max_results: size = 50 } = (pagination ?? {}) as {
    cursor?: string
    max_results?: number
  }
  const rows = token === versionOf(agent) ? '"unchanged":true,' : page(agent, Number(cursor), size)
  return `${rows}"wholesale_feed_version":"${versionOf(agent)}","cache_scope":"public"`
}

function result(
  agent: number,
  method: string,
  params: { name: string; arguments: Record<string, unknown> },
): string {
  if (method === 'initialize')
    return '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}'
  if (method === 'tools/list') return TOOLS
  return `{"content":[{"type":"text","text":"ok"}],"structuredContent":{"status":"completed",${answer(agent, params)}}}`
}

let pagesAsked = 0 // of all agents together, with the answers that nothing has changed

const urls = await Promise.all(
  Array.from({ length: Number(agents) }, async (_, agent) => {
    const server = createServer((request, response) => {
      const { pathname, searchParams } = new URL(request.url ?? '', 'http://agent')
      if (pathname === '/change') {
        const times = 1 + (changes.get(agent)?.times ?? 0)
        changes.set(agent, { times, every: Number(searchParams.get('every') ?? ROWS) })
        return void response.end()
      }
      if (request.url === '/pages-asked') return void response.end(String(pagesAsked))
      if (request.url === '/walked') return void response.end(JSON.stringify(walks.get(agent)))
      if (request.method !== 'POST') return void response.writeHead(405).end()
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const { id, method, params } = JSON.parse(Buffer.concat(chunks).toString())
        if (id === undefined) return void response.writeHead(202).end()
        if (method === 'tools/call' && params.name === 'get_signals') pagesAsked += 1
        const body = Buffer.from(`{"jsonrpc":"2.0","id":${id},"result":${result(agent, method, params)}}`)
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.byteLength })
        response.end(body)
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
  }),
)
process.stdout.write(`${JSON.stringify(urls)}\n`)
