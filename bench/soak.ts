/**
 * A soak: full load over both transports while upstreams change and one hangs. Prints requests, latency and memory of each
 * window; ends with what has to hold: no error, memory flat, the feed moved. `node dist/bench/soak.js [--minutes N]`.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import autocannon from 'autocannon'
import { BUYER } from '../test/support/federation.js'
import { givenOptions, numberOf, refuse } from '../test/support/given.js'
import { ours } from './ours.js'

const { values: given } = givenOptions({ options: { minutes: { type: 'string', default: '3' } } })
const SECONDS = 60 * numberOf(given.minutes, '--minutes')
if (!(SECONDS > 0)) refuse('--minutes takes a number above 0')
const WINDOWS = 12
const CONNECTIONS = 16
const MB = 1024 * 1024
const DAY_S = 86_400
/**
 * Memory is flat when its last third is at most so much above the one before: the first fills caches and warms code. Every
 * generation that is kept has objects of its own on the heap; how many are kept is bounded by time and bytes.
 */
const FLAT = { share: 1.08, bytes: 8 * MB, heapOfGeneration: 0.15 * MB }

type Usage = {
  heapUsed: number
  external: number
  rss: number
  cpu: NodeJS.CpuUsage
  version: string
  /** Generations that are kept for readers of older pages: as many as were made, up to a time and a bound of bytes. */
  retained: { snapshots: number; bytes: number }
}

/**
 * As deployments set it: glibc gives the memory of what is freed back. Otherwise it keeps it in pieces between what is held, and
 * that the process takes more says nothing about what it holds.
 */
const ALLOCATOR = { MALLOC_MMAP_THRESHOLD_: '131072' }

const server = ours(
  fork(fileURLToPath(new URL('./soak-world.js', import.meta.url)), {
    execArgv: ['--expose-gc'],
    env: { ...process.env, ...ALLOCATOR },
  }),
)
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
const used: Usage[] = []
let faults = 0
let total = 0

console.log(
  '  second       rps    p50 ms    p99 ms    max ms   faults   heap MB  extern MB   rss MB  generations, MB',
)
for (let window = 1; window <= WINDOWS; window++) {
  const duration = SECONDS / WINDOWS
  const result = await autocannon({ url, headers: HEADERS, requests, connections: CONNECTIONS, duration })
  const now = await usage()
  const { heapUsed, external, rss, version, retained } = now
  versions.add(version)
  used.push(now)
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
    retained.snapshots,
    retained.bytes / MB,
  ]
  console.log(cells.map((cell) => cell.toFixed(cell > 100 ? 0 : 1).padStart(10)).join(''))
}
server.send('stop')
await once(server, 'exit')

/** Mean of each third of the windows. */
function thirds(of: (usage: Usage) => number): number[] {
  const size = WINDOWS / 3
  return [0, size, 2 * size].map(
    (from) => used.slice(from, from + size).reduce((sum, one) => sum + of(one), 0) / size,
  )
}

/** Kept generations are bounded by themselves; what else is held must not grow with the number of requests. */
const HELD: Record<string, (usage: Usage) => number> = {
  heap: ({ heapUsed, retained }) => heapUsed - FLAT.heapOfGeneration * retained.snapshots,
  buffers: ({ external }) => external,
  'the rest of the process': ({ rss, heapUsed, external, retained }) =>
    rss - heapUsed - external - retained.bytes,
}
const perSecond = total / SECONDS
console.log(
  `${total} requests, as many as ${(total / DAY_S).toFixed(1)} a second in a day (${perSecond.toFixed(0)} a second here), ` +
    `${faults} faults, ${versions.size} versions of the feed`,
)
let isFlat = true
for (const [name, of] of Object.entries(HELD)) {
  const [first = 0, middle = 0, last = 0] = thirds(of)
  const holds = last <= middle * FLAT.share + FLAT.bytes
  isFlat &&= holds
  const cells = [first, middle, last].map((bytes) => (bytes / MB).toFixed(1)).join(', ')
  console.log(
    `${name}: ${cells} MB without kept generations in the thirds of the time: ${holds ? 'flat' : 'GROWS'}`,
  )
}
process.exitCode = faults === 0 && isFlat && versions.size > 1 ? 0 : 1
