/**
 * A soak: full load over both transports while upstreams change and one hangs. Prints requests, latency and memory of each
 * window; ends with what has to hold: no error, memory flat, the feed moved. `node dist/bench/soak.js [seconds]`.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import autocannon from 'autocannon'
import { BUYER } from '../test/support/federation.js'

const SECONDS = Number(process.argv[2] ?? 180)
const WINDOWS = 12
const CONNECTIONS = 16
const MB = 1024 * 1024

type Usage = { heapUsed: number; external: number; rss: number; cpu: NodeJS.CpuUsage; version: string }

const server = fork(fileURLToPath(new URL('./soak-world.js', import.meta.url)), { execArgv: ['--expose-gc'] })
const [{ url }] = (await once(server, 'message')) as [{ url: string }]

async function usage(): Promise<Usage> {
  server.send('usage')
  const [used] = (await once(server, 'message')) as [Usage]
  return used
}

const wholesale = { discovery_mode: 'wholesale', pagination: { max_results: 50 } }
const REF = { scope: 'data_provider', data_provider_domain: 'motorledger.example', signal_id: 'x' }
const QUESTIONS: object[] = [
  wholesale,
  { ...wholesale, if_wholesale_feed_version: 'of yesterday' },
  { ...wholesale, filters: { max_cpm: 3, catalog_types: ['marketplace'] } },
  { ...wholesale, destinations: [{ type: 'platform', platform: 'the-trade-desk' }] },
  { signal_refs: [REF] },
  { discovery_mode: 'wholesale', signal_spec: 'a mistake' },
]
const HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  authorization: `Bearer ${BUYER}`,
  'mcp-protocol-version': '2025-06-18',
  'a2a-version': '1.0',
}

function overMcp(args: object, id: number) {
  const params = { name: 'get_signals', arguments: args }
  return {
    method: 'POST' as const,
    path: '/mcp',
    body: JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params }),
  }
}

function overA2a(input: object, id: number) {
  const message = { messageId: `m${id}`, parts: [{ data: { skill: 'get_signals', input } }] }
  const body = JSON.stringify({ jsonrpc: '2.0', id, method: 'SendMessage', params: { message } })
  return { method: 'POST' as const, path: '/a2a', body }
}

const requests = QUESTIONS.flatMap((question, at) => [overMcp(question, at), overA2a(question, at)])
const versions = new Set<string>()
const heaps: number[] = []
let faults = 0
let total = 0

console.log('  second       rps    p50 ms    p99 ms    max ms   faults   heap MB  extern MB   rss MB')
for (let window = 1; window <= WINDOWS; window++) {
  const duration = SECONDS / WINDOWS
  const result = await autocannon({ url, headers: HEADERS, requests, connections: CONNECTIONS, duration })
  const { heapUsed, external, rss, version } = await usage()
  versions.add(version)
  heaps.push(heapUsed)
  const failed = result.errors + result.timeouts + result.non2xx
  faults += failed
  total += result.requests.total
  const { p50, p99, max } = result.latency
  const cells = [
    window * duration,
    result.requests.average,
    p50,
    p99,
    max,
    failed,
    heapUsed / MB,
    external / MB,
    rss / MB,
  ]
  console.log(cells.map((cell) => cell.toFixed(cell > 100 ? 0 : 1).padStart(10)).join(''))
}
server.send('stop')
await once(server, 'exit')

// The first windows fill caches; what they hold then must not grow with the number of requests.
const settled = heaps.slice(WINDOWS / 3)
const growth = ((settled.at(-1) ?? 0) - (settled[0] ?? 0)) / (settled[0] ?? 1)
console.log(
  `${total} requests, ${faults} faults, ${versions.size} versions of the feed, heap ${(growth * 100).toFixed(1)} % from settled to end`,
)
process.exitCode = faults === 0 ? 0 : 1
