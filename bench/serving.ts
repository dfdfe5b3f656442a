/**
 * Serving (docs/performance.md): what a request costs, in CPU of the server, as a ratio to a bare Fastify route that sends
 * the same bytes. The two are asked in turn, round after round, and the middle ratio counts: other work on the machine
 * meets both alike. The servers live in another process, so the load generator is no part of it.
 * `node dist/bench/serving.js [requests a round] [rounds] [part of the rows' names]`.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import autocannon from 'autocannon'
import { TOKENS } from './serving-world.js'

const REQUESTS = Number(process.argv[2] ?? 3_000)
const ROUNDS = Number(process.argv[3] ?? 7)
const ONLY = process.argv[4] ?? ''
const CONNECTIONS = 32

type Started = { urls: Record<'bare' | 'lean' | 'full' | 'official', string>; version: string }
type Load = {
  path: string
  bodies: readonly string[]
  headers?: Record<string, string>
  token?: keyof typeof TOKENS
  connections?: number
}
type Measured = { cpuMicros: number; rps: number; p50: number; p99: number }

const server = fork(fileURLToPath(new URL('./serving-world.js', import.meta.url)))
const [{ urls, version }] = (await once(server, 'message')) as [Started]

async function cpu(): Promise<number> {
  server.send('cpu')
  const [{ cpu: used }] = (await once(server, 'message')) as [{ cpu: NodeJS.CpuUsage }]
  return used.user + used.system
}

const headersOf = ({ headers, token = 'bench' }: Load) => ({
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  ...(token === 'nobody' ? {} : { authorization: `Bearer ${TOKENS[token]}` }),
  'mcp-protocol-version': '2025-06-18',
  ...headers,
})

async function measure(url: string, load: Load, requests = REQUESTS): Promise<Measured> {
  const [body = ''] = load.bodies
  const several = load.bodies.length > 1 && load.bodies.map((one) => ({ method: 'POST' as const, body: one }))
  const before = await cpu()
  const startedAt = performance.now()
  const result = await autocannon({
    ...{ url, method: 'POST', body, headers: headersOf(load), amount: requests },
    connections: load.connections ?? CONNECTIONS,
    ...(several && { requests: several }),
  })
  const seconds = (performance.now() - startedAt) / 1_000
  const used = (await cpu()) - before
  if (result.non2xx > 0 || result.errors > 0)
    throw new Error(`${url}: ${result.non2xx} refused, ${result.errors} failed`)
  const { p50, p99 } = result.latency
  return { cpuMicros: used / requests, rps: requests / seconds, p50, p99 }
}

const tool = (args: object) =>
  JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
    params: { name: 'get_signals', arguments: args },
  })
const skill = (input: object) =>
  JSON.stringify({
    ...{ jsonrpc: '2.0', id: 1, method: 'SendMessage' },
    params: {
      message: { messageId: 'm', role: 'ROLE_USER', parts: [{ data: { skill: 'get_signals', input } }] },
    },
  })

async function post(load: Load): Promise<ArrayBuffer> {
  const [body = ''] = load.bodies
  const reply = await fetch(load.path, { method: 'POST', headers: headersOf(load), body })
  if (!reply.ok) throw new Error(`${load.path}: ${reply.status}`)
  return reply.arrayBuffer()
}

/** The questions of a walk, each with the cursor of the page before it. */
async function walk(selection: object, pages: number): Promise<string[]> {
  const found: string[] = []
  let cursor: string | undefined
  do {
    const pagination = { max_results: 50, ...(cursor && { cursor }) }
    const body = tool({ discovery_mode: 'wholesale', ...selection, pagination })
    const answer = await post({ path: `${urls.lean}/mcp`, bodies: [body] })
    const { result } = JSON.parse(Buffer.from(answer).toString()) as {
      result: { structuredContent: { pagination: { cursor?: string } } }
    }
    cursor = result.structuredContent.pagination.cursor
    found.push(body)
  } while (cursor && found.length < pages)
  return found
}

const page = { discovery_mode: 'wholesale', pagination: { max_results: 50 } }
const unchanged = { ...page, if_wholesale_feed_version: version }
const A2A = { 'a2a-version': '1.0' }
const [lean, full, leanA2a, fullA2a] = [
  `${urls.lean}/mcp`,
  `${urls.full}/mcp`,
  `${urls.lean}/a2a`,
  `${urls.full}/a2a`,
]
const narrow = { filters: { catalog_types: ['marketplace'], data_providers: ['p3.example'] } }
const FIELDS = { fields: ['name', 'description', 'pricing_options'] }
const DESTINATION = { destinations: [{ type: 'platform', platform: 'dv360' }] }
const COUNTRIES = { countries: ['DE'] }
const every = { ...FIELDS, ...DESTINATION, ...COUNTRIES }
const of = (selection: object) => [tool({ ...page, ...selection })]

const LOADS: [string, Load][] = [
  ['unchanged, MCP', { path: lean, bodies: [tool(unchanged)] }],
  ['unchanged, MCP, metrics and limits', { path: full, bodies: [tool(unchanged)] }],
  [
    'unchanged, MCP, metrics and limits, 1 connection',
    { path: full, bodies: [tool(unchanged)], connections: 1 },
  ],
  [
    'unchanged, MCP, metrics and limits, 256 connections',
    { path: full, bodies: [tool(unchanged)], connections: 256 },
  ],
  ['unchanged, A2A', { path: leanA2a, bodies: [skill(unchanged)], headers: A2A }],
  ['unchanged, A2A, metrics and limits', { path: fullA2a, bodies: [skill(unchanged)], headers: A2A }],
  ['page of 50, MCP', { path: lean, bodies: of({}) }],
  ['page of 50, MCP, metrics and limits', { path: full, bodies: of({}) }],
  ['page of 50, anonymous', { path: full, bodies: of({}), token: 'nobody' }],
  ['page of 50, A2A', { path: leanA2a, bodies: [skill(page)], headers: A2A }],
  ['page of 50, MCP, gzip', { path: lean, bodies: of({}), headers: { 'accept-encoding': 'gzip' } }],
  ['page of 50, walking', { path: lean, bodies: await walk({}, 300) }],
  ['page of 50, scattered by a filter', { path: lean, bodies: await walk(narrow, 50) }],
  ['page of 50, fields', { path: lean, bodies: of(FIELDS) }],
  ['page of 50, a destination', { path: lean, bodies: of(DESTINATION) }],
  ['page of 50, countries', { path: lean, bodies: of(COUNTRIES) }],
  ["page of 50, the caller's keys", { path: lean, bodies: of({}), token: 'granted' }],
  ['page of 50, all of these', { path: lean, bodies: of(every), token: 'granted' }],
  ['page of 50, all of these, walking', { path: lean, bodies: await walk(every, 100), token: 'bench' }],
  [
    'page of 50, older client (JSON in text)',
    { path: lean, bodies: of({}), headers: { 'mcp-protocol-version': '2025-03-26' } },
  ],
]

/** Gives the bare route the very bytes that ours answers with. */
async function teach(load: Load): Promise<string> {
  const headers = { 'content-type': 'application/octet-stream' }
  await fetch(`${urls.bare}/bytes`, { method: 'PUT', headers, body: await post(load) })
  return `${urls.bare}/bare`
}

const middle = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1] as number

/** Rounds of one after the other; the middle of each. */
async function compare(load: Load) {
  const bare = await teach(load)
  for (const url of [bare, load.path]) await measure(url, load, 2 * REQUESTS)
  const rounds: { ours: Measured; bare: Measured }[] = []
  for (let round = 0; round < ROUNDS; round += 1)
    rounds.push({ bare: await measure(bare, load), ours: await measure(load.path, load) })
  const of = (value: (round: (typeof rounds)[number]) => number) => middle(rounds.map(value))
  return {
    cpu: of(({ ours }) => ours.cpuMicros),
    bareCpu: of((one) => one.bare.cpuMicros),
    cpuRatio: of((one) => one.bare.cpuMicros / one.ours.cpuMicros),
    rpsRatio: of((one) => one.ours.rps / one.bare.rps),
    p50: of(({ ours }) => ours.p50),
    p99: of(({ ours }) => ours.p99),
  }
}

const cells = (...values: (string | number)[]) =>
  values.map((value) => (typeof value === 'number' ? value.toFixed(2) : value).padStart(10)).join('')
console.log(`${''.padEnd(54)}${cells('us CPU', 'bare', 'CPU ratio', 'rps ratio', 'p50 ms', 'p99 ms')}`)
for (const [what, load] of LOADS.filter(([name]) => name.includes(ONLY))) {
  const { cpu: ours, bareCpu, cpuRatio, rpsRatio, p50, p99 } = await compare(load)
  console.log(`${what.padEnd(54)}${cells(ours, bareCpu, cpuRatio, rpsRatio, p50, p99)}`)
}
// Last: what it leaves to the garbage collector would be paid by whoever is measured next.
for (const [what, args] of [
  ['unchanged', unchanged],
  ['page of 50', page],
] as const) {
  if (ONLY !== '') break
  const load: Load = { path: full, bodies: [tool(args)] }
  const few = Math.ceil(REQUESTS / 10)
  const theirs = await measure(`${urls.official}/mcp`, load, few)
  const ours = await measure(full, load, few)
  console.log(
    `${`${what}, times the CPU of ours: official McpServer`.padEnd(54)}${cells(theirs.cpuMicros / ours.cpuMicros)}`,
  )
}
server.kill()
